"""The Pythons of this host, and the packages that each of them runs Towpath with."""

import fcntl
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.commands import finished
from tests.support.outside import ROOT

OLDEST = (3, 11)
RUNNING = sys.version_info[:2]

_EXTRAS = ("server", "embedded")
_PIP_SECONDS = 900
_ASK = """
import json, os, sys, sysconfig
shared = os.path.join(*map(sysconfig.get_config_var, ("LIBDIR", "INSTSONAME")))
print(json.dumps({
    "version": sys.version_info[:2],
    "program": os.path.realpath(sys.executable),
    "prefix": os.path.realpath(sys.base_prefix),
    "libraries": sorted({os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}),
    # Debian's Python was built with one, which need not be installed.
    "shared": shared if sysconfig.get_config_var("Py_ENABLE_SHARED") and os.path.exists(shared) else None,
}))
"""


class PackagesMissing(Exception):
    """The packages cannot be had for a Python; the message says why."""


@dataclass(frozen=True)
class Interpreter:
    """A Python outside of any virtual environment, its library, and `libpython` where it is a file of its own."""

    version: tuple[int, int]
    program: Path
    prefix: Path
    libraries: tuple[Path, ...]
    shared: Path | None

    @property
    def name(self) -> str:
        """The name of its program, such as `python3.11`."""
        return f"python{self.version[0]}.{self.version[1]}"

    @property
    def is_open(self) -> bool:
        """Tell whether every user of this host may run it."""
        needed = [self.program, *self.libraries, *([self.shared] if self.shared else [])]
        return all(is_open(path) for path in needed)


def is_open(path: Path) -> bool:
    """Tell whether every user of this host may read a file or enter a folder, all folders above it included."""
    return all(folder.stat().st_mode & 0o001 for folder in path.parents) and bool(path.stat().st_mode & 0o004)


def _ask(program: Path) -> Interpreter | None:
    try:
        told = finished([program, "-I", "-c", _ASK], seconds=60)
    except OSError:
        return None
    if told.returncode != 0:
        return None
    found = json.loads(told.stdout)
    major, minor = found["version"]
    shared = found["shared"] and Path(found["shared"])
    return Interpreter(
        (major, minor), Path(found["program"]), Path(found["prefix"]), tuple(map(Path, found["libraries"])), shared
    )


def _programs() -> Iterator[Path]:
    names = [f"python3.{minor}" for minor in range(OLDEST[1], OLDEST[1] + 10)]
    folders = [Path("/usr/bin"), Path("/usr/local/bin")]
    managed = Path.home() / ".pyenv" / "versions", Path.home() / ".local" / "share" / "uv" / "python"
    folders += [folder for place in managed for folder in sorted(place.glob("*/bin"))]
    # Those of the PATH last: there may be scripts among them that take long to find one of the others.
    folders += map(Path, os.get_exec_path())
    yield from ((folder / name).resolve() for folder in folders for name in names if (folder / name).is_file())
    yield Path(sys.executable).resolve()


@functools.cache
def interpreters() -> dict[tuple[int, int], Interpreter]:
    """Return one Python of each version that Towpath takes; of several, one that every user may run."""
    found: dict[tuple[int, int], Interpreter] = {}
    for program in dict.fromkeys(_programs()):
        interpreter = _ask(program)
        if interpreter is None or interpreter.version < OLDEST:
            continue
        known = found.get(interpreter.version)
        if known is None or (interpreter.is_open and not known.is_open):
            found[interpreter.version] = interpreter
    return found


def packages_of(interpreter: Interpreter) -> dict[Path, Path]:
    """Return the files of the packages that Towpath needs, by their paths below `site-packages`.

    They are those of this environment; for a Python of another version pip installs them, once. Raises
    `PackagesMissing` where it cannot.
    """
    if interpreter.version == RUNNING:
        return _own_packages()
    installed = _installed_packages(interpreter)
    return {path.relative_to(installed): path for path in installed.rglob("*") if not path.is_dir()}


@functools.cache
def _own_packages() -> dict[Path, Path]:
    """Return the files of what the project requires, and of what that requires in turn, but not the project's own."""
    found = {}
    for distribution in _required("towpath", frozenset(_EXTRAS), {}).values():
        if distribution.name == "towpath":
            continue
        for file in distribution.files or []:
            path = Path(str(file.locate()))
            if ".." in file.parts or not path.is_file():
                continue
            found[Path(file)] = path
            if path.suffix == ".py" and (compiled := Path(importlib.util.cache_from_source(path))).is_file():
                found[Path(file).parent / "__pycache__" / compiled.name] = compiled
    return found


def _required(
    name: str, extras: frozenset[str], known: dict[str, importlib.metadata.Distribution]
) -> dict[str, importlib.metadata.Distribution]:
    distribution = known.setdefault(canonicalize_name(name), importlib.metadata.distribution(name))
    for text in distribution.requires or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            continue
        if canonicalize_name(requirement.name) not in known or requirement.extras:
            _required(requirement.name, frozenset(requirement.extras), known)
    return known


def _installed_packages(interpreter: Interpreter) -> Path:
    """Return a `site-packages` for this Python, kept beside the virtual environment's own as that is made anew."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [
        *project["dependencies"],
        *(line for extra in _EXTRAS for line in project["optional-dependencies"][extra]),
    ]
    digest = hashlib.sha256("\n".join(requirements).encode()).hexdigest()[:12]
    kept = Path(sys.prefix) / "pythons"
    try:
        kept.mkdir(exist_ok=True)
        lock = (kept / "lock").open("w")
    except OSError as error:
        raise PackagesMissing(f"{kept}: {error.strerror}") from error
    with lock:
        # Several processes of tests come here at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = kept / f"{interpreter.name}-{digest}"
        if not folder.exists():
            for earlier in kept.glob(f"{interpreter.name}-*"):
                shutil.rmtree(earlier)
            _install(interpreter, requirements, folder)
    return folder / "lib" / interpreter.name / "site-packages"


def _install(interpreter: Interpreter, requirements: list[str], folder: Path) -> None:
    unfinished = folder.with_name(f"unfinished-{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--python", str(unfinished / "bin" / "python"), "install", "--quiet"]
    try:
        subprocess.run(
            [interpreter.program, "-m", "venv", "--without-pip", unfinished], check=True, timeout=_PIP_SECONDS
        )
        subprocess.run([*pip, *requirements], check=True, timeout=_PIP_SECONDS, capture_output=True, text=True)
    except subprocess.SubprocessError as error:
        said = str(getattr(error, "stderr", None) or error).strip().splitlines()[-1]
        raise PackagesMissing(f"{interpreter.name}: {said}") from error
    unfinished.rename(folder)
