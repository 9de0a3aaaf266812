"""The place of a user who has no checkout: the wheel or the sdist, in a virtual environment of its own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import LONG_SECONDS

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Distributions:
    """The two files of a release that pip installs from."""

    wheel: Path
    sdist: Path

    @classmethod
    def found_in(cls, folder: Path) -> "Distributions":
        """Return those of a folder that has nothing else of these kinds."""
        (wheel,) = folder.glob("towpath-*.whl")
        (sdist,) = folder.glob("towpath-*.tar.gz")
        return cls(wheel, sdist)

    @classmethod
    def build(cls, folder: Path) -> "Distributions":
        """Build them of the files of this checkout as they are, committed or not."""
        command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
        subprocess.run(command, cwd=ROOT, check=True, timeout=LONG_SECONDS, stdout=subprocess.DEVNULL)
        return cls.found_in(folder)


@dataclass(frozen=True)
class Outside:
    """A virtual environment that knows nothing of this project but what is installed into it."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @classmethod
    def make(cls, folder: Path, *requirements: str) -> "Outside":
        """Make it and install into it; what pip has downloaded before it takes from its cache."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=LONG_SECONDS)
        outside = cls(folder)
        outside.install(*requirements)
        return outside

    def install(self, *requirements: str) -> None:
        """Install more into it."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        subprocess.run([*pip, *requirements], check=True, timeout=LONG_SECONDS)

    def installed(self) -> set[str]:
        """Return the names of the distributions that are installed."""
        code = "from importlib.metadata import distributions\nfor found in distributions(): print(found.name.lower())"
        return set(self.run("-c", code).stdout.decode().split())

    def environment(self, more: dict[str, str] | None = None) -> dict[str, str]:
        """Return the variables of its programs: those of this computer and `more`, and none of this project's own."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TOWPATH_", "PYTHON"))}
        return {**kept, **(more or {})}

    def run(
        self,
        *arguments: str,
        program: str = "python",
        environment: dict[str, str] | None = None,
        folder: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program of it, by default its Python, in its folder or another, without this project's variables."""
        return subprocess.run(
            [str(self.folder / "bin" / program), *arguments],
            env=self.environment(environment),
            cwd=folder or self.folder,
            capture_output=True,
            timeout=LONG_SECONDS,
            check=False,
        )
