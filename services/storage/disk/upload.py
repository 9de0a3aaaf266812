"""An upload to the disk."""

import errno
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from services.storage.disk.durable import Folders, sync_folder
from services.storage.disk.paths import path_of
from services.storage.refusals import storage_full
from services.storage.undivided import in_thread

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def _room_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise storage_full() from error
        raise


async def _in_thread(
    function: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    with _room_errors():
        return await in_thread(function, *args, **kwargs)


def _new_name(root: Path, oid: str) -> Path:
    return path_of(root, oid, incoming=secrets.token_hex(8))


class DiskUpload:
    """One upload; see `services.storage.backend.Upload`. `create` begins it, and `close` ends it in any case."""

    def __init__(self, root: Path, folders: Folders, oid: str) -> None:
        self._root = root
        self._folders = folders
        self._oid = oid
        self._path = _new_name(root, oid)
        self._descriptor: int | None = None
        self._left_to_sweep = False

    async def create(self) -> None:
        """Make the file in `incoming`, under flock."""
        await _in_thread(self._create)

    async def write(self, chunk: bytes) -> None:
        """Add bytes at the end."""
        await _in_thread(self._write, chunk)

    async def flush(self) -> None:
        """Return when all bytes are on the disk."""
        await _in_thread(os.fsync, self._open)

    async def publish(self) -> None:
        """Put the bytes in place; the file in `incoming` stays, so that a sweep finds them until `settle`."""
        self._left_to_sweep = True
        await _in_thread(self._publish)

    async def settle(self) -> None:
        """Leave nothing to a sweep."""
        self._left_to_sweep = False

    async def close(self) -> None:
        """End the upload: its file in `incoming` goes, unless a sweep must see it."""
        await in_thread(self._close)

    @property
    def _open(self) -> int:
        if self._descriptor is None:
            raise ValueError("the upload is not open")
        return self._descriptor

    def _create(self) -> None:
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        if os.fstat(self._descriptor).st_nlink == 0:
            # A sweep came between the two and took the file for one whose writer is dead. It is done with it.
            os.close(self._descriptor)
            self._descriptor = None
            self._path = _new_name(self._root, self._oid)
            self._create()

    def _write(self, chunk: bytes) -> None:
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(self._open, rest) :]

    def _publish(self) -> None:
        final = path_of(self._root, self._oid)
        second = _new_name(self._root, self._oid)
        self._folders.ensure(final.parent)
        os.link(self._path, second)
        try:
            second.replace(final)
        finally:
            # Renaming over another name of the same file does nothing, so the name may still be there.
            second.unlink(missing_ok=True)
        sync_folder(final.parent)

    def _close(self) -> None:
        if self._descriptor is None:
            return
        try:
            if not self._left_to_sweep:
                self._path.unlink(missing_ok=True)
        finally:
            # Only now, as closing lets go of the flock.
            os.close(self._descriptor)
            self._descriptor = None
