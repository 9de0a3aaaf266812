"""The folders of a data folder that do not outlive the host: that of the sockets, and the memory that is shared.

DIR/run             the folder of the sockets, or a link to the one below the temporary folder that is used instead
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
_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made in it is ours alone
_SOCKET_PATH_BYTES = 103
"""What every system takes: Linux 107, macOS 103."""

# A gRPC address is a URI and Postgres takes a list, so characters that mean something there are not taken.
_PLAIN = re.compile(rb"[A-Za-z0-9/._+-]+")


def runtime_directory(data: Path) -> Path:
    """Return the folder of the sockets of a data folder, which `make_runtime_directory` has made.

    `data` is an absolute path without symbolic links.
    """
    inside = data / "run"
    return inside.readlink() if inside.is_symlink() else inside


def make_runtime_directory(data: Path, reached: Path, account: Account | None = None) -> Path:
    """Make the folder of the sockets, which nobody but this user, or the account, may enter, and return it.

    It is `run` in the data folder, or one below the temporary folder where a socket's path would be too long or hold
    special characters; its name is kept in a link, as others, the administration commands, look for it with another
    TMPDIR. `reached` is the data folder as this process gets there.

    Raises `CommandError` where something of that name is not ours alone: others could put their sockets there.
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
        # The data folder had a shorter path once.
        shutil.rmtree(inside)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_temporary(account))).resolve()
    if not _holds_sockets(made):
        made.rmdir()
        raise CommandError(f"{made.parent}: expected a temporary folder with a short path without special characters")
    _link(inside, made)
    return _owned(made, account)


def make_memory_directory(reached: Path) -> Path | None:
    """Make a folder in memory that nobody else may enter, and return it; None where the system has none.

    Its name cannot be guessed. The caller removes it by `remove_memory_directory`; what a killed process has left there
    is removed first.
    """
    remove_memory_directory(reached)
    if not os.access(_MEMORY, os.W_OK | os.X_OK):
        return None
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_MEMORY))
    _link(reached / "memory", made)
    return made


def remove_memory_directory(reached: Path) -> None:
    """Remove the folder in memory of a data folder with all in it, if there is one."""
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
    """Return the temporary folder; the system's where root's own is closed to the account."""
    own = tempfile.gettempdir()
    return own if account is None or account.can(f"-w {own}") else "/tmp"  # noqa: S108 - a name that nobody knows is made in it


def _owned(folder: Path, account: Account | None) -> Path:
    if account is not None and folder.lstat().st_uid == 0:
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)
    owner = os.geteuid() if account is None else account.uid
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or stat.S_IMODE(found.st_mode) & 0o077:
        raise CommandError(f"{folder}: expected a folder of our own with mode 0700; remove it and start again")
    return folder
