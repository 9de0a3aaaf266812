"""Where the sockets of a data folder lie, and the memory that its services share."""

import hashlib
import os
import re
import stat
import tempfile
from pathlib import Path

from services.cli.errors import CommandError

POSTGRES_SOCKET = ".s.PGSQL.5432"
STORAGE_SOCKET = "storage.sock"
LOCKS_SOCKET = "locks.sock"

_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made in it is ours alone
_SOCKET_PATH_BYTES = 103
"""What every system takes: Linux 107, macOS 103."""

# A gRPC address is a URI and Postgres takes a list, so characters that mean something there are not taken.
_PLAIN = re.compile(rb"[A-Za-z0-9/._+-]+")


def runtime_directory(data: Path) -> Path:
    """Return the folder of the sockets of a data folder: `run` in it, or one for it in the temporary folder.

    The second is taken where a socket's path in the first would be too long or hold special characters. `data` is
    an absolute path without symbolic links; the answer is always the same for the same folder and owner.
    """
    inside = data / "run"
    longest = max(len(name) for name in (POSTGRES_SOCKET, STORAGE_SOCKET, LOCKS_SOCKET))
    path = os.fsencode(inside)
    if len(path) + 1 + longest <= _SOCKET_PATH_BYTES and _PLAIN.fullmatch(path):
        return inside
    return Path(tempfile.gettempdir()).resolve() / _name(data)


def make_runtime_directory(data: Path) -> Path:
    """Make the folder of `runtime_directory`, which nobody else may enter, and return it.

    Raises `CommandError` where something of that name is not ours alone: others could put their sockets there.
    """
    return _made(runtime_directory(data))


def make_memory_directory(data: Path) -> Path | None:
    """Make an empty folder in memory, which nobody else may enter, and return it; None where the system has none.

    The caller removes it. Raises as `make_runtime_directory` does.
    """
    if not os.access(_MEMORY, os.W_OK | os.X_OK):
        return None
    folder = _made(_MEMORY / _name(data))
    # What a `towpath up` that was killed has left.
    for left in folder.iterdir():
        left.unlink()
    return folder


def _name(data: Path) -> str:
    owner = data.stat().st_uid if data.exists() else os.geteuid()
    digest = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    return f"towpath-{owner}-{digest}"


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise CommandError(f"{folder}: expected a folder of our own with mode 0700; remove it and start again")
    return folder
