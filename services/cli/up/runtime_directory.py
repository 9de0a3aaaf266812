"""Runtime folders of a data folder: the folder of the sockets, and the folder in memory that the services share.

DIR/run             the folder of the sockets, or a link to a folder below the temporary folder that replaces it
DIR/memory          a link to the folder in memory, while a `towpath up` runs
"""

import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from services.cli.errors import CommandError
from services.cli.unprivileged.account import Account

POSTGRES_SOCKET = ".s.PGSQL.5432"
STORAGE_SOCKET = "storage.sock"
LOCKS_SOCKET = "locks.sock"

_PREFIX = "towpath-"
_MEMORY = Path("/dev/shm")  # noqa: S108 - mkdtemp makes a folder in it that is ours alone
_SOCKET_PATH_BYTES = 103
"""The longest path of a socket, in bytes, that every system accepts: Linux accepts 107, macOS 103."""

# Without the special characters of a gRPC address (a URI) and of Postgres' list of socket folders.
_PLAIN = re.compile(rb"[A-Za-z0-9/._+-]+")


def runtime_directory(data: Path) -> Path:
    """Return the folder of the sockets that `make_runtime_directory` has made for a data folder.

    `data` is an absolute path without symbolic links.
    """
    inside = data / "run"
    return inside.readlink() if inside.is_symlink() else inside


def make_runtime_directory(data: Path, reached: Path, account: Account | None = None) -> Path:
    """Make and return the folder of the sockets; only this user, or the account if there is one, may enter it.

    The folder is `run` in the data folder. If a socket's path there would be too long or contain special characters, it
    is a folder below the temporary folder, and `run` is a link to it, because the administration commands may run with
    another TMPDIR. `reached` is the path by which this process reaches the data folder.

    Raises `CommandError` if a folder of that name is not ours alone, because other users could put their sockets there,
    and if the path of the temporary folder is not usable either.
    """
    inside = reached / "run"
    if _holds_sockets(data / "run"):
        if inside.is_symlink():
            inside.unlink()
        inside.mkdir(mode=0o700, exist_ok=True)
        return _owned(inside, account)
    if inside.is_symlink():
        known = inside.readlink()
        if os.path.lexists(known):
            return _owned(known, account)
    elif inside.exists():
        # The data folder had a usable path earlier.
        shutil.rmtree(inside)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_temporary(account))).resolve()
    if not _holds_sockets(made):
        made.rmdir()
        raise CommandError(f"{made.parent}: expected a temporary folder with a short path without special characters")
    _link(inside, made)
    return _owned(made, account)


def make_memory_directory(reached: Path) -> Path | None:
    """Make a folder in memory that no other user may enter, and return it; None if there is no writable /dev/shm.

    The folder's name cannot be guessed. The caller removes the folder by `remove_memory_directory`. A folder that a
    killed process has left behind is removed first.
    """
    remove_memory_directory(reached)
    if not os.access(_MEMORY, os.W_OK | os.X_OK):
        return None
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_MEMORY))
    _link(reached / "memory", made)
    return made


def remove_memory_directory(reached: Path) -> None:
    """Remove the folder in memory of a data folder and everything in it, if there is one."""
    link = reached / "memory"
    if link.is_symlink():
        folder = link.readlink()
        if folder.parent == _MEMORY and folder.name.startswith(_PREFIX):
            shutil.rmtree(folder, ignore_errors=True)
        link.unlink()


def _holds_sockets(folder: Path) -> bool:
    path = os.fsencode(folder)
    longest = max(len(name) for name in (POSTGRES_SOCKET, STORAGE_SOCKET, LOCKS_SOCKET))
    return len(path) + 1 + longest <= _SOCKET_PATH_BYTES and _PLAIN.fullmatch(path) is not None


def _link(link: Path, folder: Path) -> None:
    unfinished = link.with_name(f"{link.name}.new")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(folder)
    unfinished.rename(link)


def _temporary(account: Account | None) -> str:
    """Return the temporary folder, or the system's default if root's own is closed to the account."""
    own = tempfile.gettempdir()
    return own if account is None or account.can(f"-w {own}") else "/tmp"  # noqa: S108 - mkdtemp picks a random name


def _owned(folder: Path, account: Account | None) -> Path:
    if account is not None and folder.lstat().st_uid == 0:
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)
    owner = os.geteuid() if account is None else account.uid
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or stat.S_IMODE(found.st_mode) & 0o077:
        raise CommandError(f"{folder}: expected a folder of our own with mode 0700; remove it and start again")
    return folder
