"""A whole Towpath in any place: Python, a virtual environment and a checkout, none of which needs a file elsewhere."""

import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.interpreters import Interpreter, packages_of
from tests.support.outside import ROOT

# Large parts of Python's library that no server needs, and the packages of others.
_LEFT_OUT = ("site-packages", "dist-packages", "test", "idlelib", "turtledemo", "tkinter", "ensurepip", "config-*")


@dataclass(frozen=True)
class Installation:
    """An installation as `make run` leaves it in a folder, with a Python that may be in it too."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables by which the system's linker finds its Python."""

    @property
    def checkout(self) -> Path:
        """The files of the project."""
        return self.folder / "checkout"

    @property
    def python(self) -> Path:
        """The interpreter of its virtual environment."""
        return self.folder / "venv" / "bin" / "python"

    @property
    def command(self) -> tuple[str, ...]:
        """The command that runs `towpath`."""
        return (str(self.python), "-m", "services.cli")

    @classmethod
    def make(cls, folder: Path, interpreter: Interpreter, *, with_python: bool) -> "Installation":
        """Make it in a new folder; `with_python` brings the interpreter along, else it stays where it is.

        Files that every user may read become hard links where the file system allows it. Raises `PackagesMissing`.
        """
        packages = packages_of(interpreter)
        folder.mkdir(parents=True)
        program, environment = interpreter.program, {}
        if with_python:
            program = _copy_python(interpreter, folder / "python")
            if interpreter.shared:
                environment["LD_LIBRARY_PATH"] = str(folder / "python" / "lib")
        made = cls(folder, environment)
        site = folder / "venv" / "lib" / interpreter.name / "site-packages"
        for name, path in packages.items():
            _put(path, site / name)
        made._copy_checkout()
        (site / "towpath.pth").write_text(f"{made.checkout}\n{made.checkout / 'proto' / 'gen'}\n")
        made.python.parent.mkdir()
        made.python.symlink_to(program)
        (folder / "venv" / "pyvenv.cfg").write_text(f"home = {program.parent}\ninclude-system-site-packages = false\n")
        made._open()
        return made

    def _copy_checkout(self) -> None:
        # With what is compiled of them, which spares every process of a read-only checkout some seconds.
        for name in ("services", "proto"):
            shutil.copytree(ROOT / name, self.checkout / name)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, self.checkout)

    def _open(self) -> None:
        """Let every user read it, whatever the umask is, and that of whoever made the checkout was."""
        for path in (self.folder, *self.folder.rglob("*")):
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
                path.chmod(stat.S_IMODE(mode) | 0o444 | (0o111 if mode & stat.S_IXUSR else 0))

    def own(self, uid: int, gid: int, *, closed: bool = False) -> None:
        """Give its folders and its own files to a user, as the one who made them; `closed` as under a umask of 077.

        A hard link is left as it is: it is a file of this environment too.
        """
        for path in (self.folder, *self.folder.rglob("*")):
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) and found.st_nlink > 1:
                continue
            if os.geteuid() == 0:
                os.lchown(path, uid, gid)
            if closed and not path.is_symlink():
                path.chmod(stat.S_IMODE(found.st_mode) & 0o700)

    def make_read_only(self, *parts: Path) -> None:
        """Take the right to write from the folders and files below these, hard links aside."""
        for path in (path for part in parts for path in (part, *part.rglob("*"))):
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1):
                path.chmod(stat.S_IMODE(found.st_mode) & 0o555)


def _copy_python(interpreter: Interpreter, to: Path) -> Path:
    program = to / "bin" / interpreter.name
    _put(interpreter.program, program)
    for library in interpreter.libraries:
        shutil.copytree(
            library,
            to / library.relative_to(interpreter.prefix),
            symlinks=True,
            ignore=shutil.ignore_patterns(*_LEFT_OUT),
            copy_function=_put,
            dirs_exist_ok=True,
        )
    if interpreter.shared:
        _put(interpreter.shared, to / "lib" / interpreter.shared.name)
    return program


def _put(source: str | Path, to: str | Path) -> None:
    """Give a file a second name where every user may read it and the file system allows it, else copy it."""
    path, target = Path(source).resolve(), Path(to)
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.stat().st_mode & stat.S_IROTH:
        with suppress(OSError):
            target.hardlink_to(path)
            return
    shutil.copy2(path, target)


def remove(*folders: Path) -> None:
    """Remove folders, those that their owner may not write to included."""
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
        shutil.rmtree(folder)
