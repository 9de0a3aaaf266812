"""An upload to the disk."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from services.common.undivided import in_thread
from services.storage.disk.durable import Folders, sync_folder
from services.storage.disk.paths import incoming_path, path_of
from services.storage.refusals import storage_full

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


class DiskUpload:
    """One upload; see `services.storage.backend.Upload`. `create` begins it, and `close` ends it in any case."""

    def __init__(self, root: Path, folders: Folders, name: str) -> None:
        self._folders = folders
        self._incoming = incoming_path(root, name)
        self._final = path_of(root, name)
        self._descriptor: int | None = None
        self._in_place = False

    async def create(self) -> None:
        """Make the file in `incoming`. Raises FileExistsError for a name that is used already."""
        await _in_thread(self._create)

    async def write(self, chunk: bytes) -> None:
        """Add bytes at the end."""
        await _in_thread(self._write, chunk)

    async def finish(self) -> None:
        """Put the file in place, durably."""
        await _in_thread(self._finish)

    async def close(self) -> None:
        """End the upload: its file goes, unless it is in place."""
        await in_thread(self._close)

    @property
    def _open(self) -> int:
        if self._descriptor is None:
            raise ValueError("the upload is not open")
        return self._descriptor

    def _create(self) -> None:
        self._descriptor = os.open(self._incoming, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)

    def _write(self, chunk: bytes) -> None:
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(self._open, rest) :]

    def _finish(self) -> None:
        os.fsync(self._open)
        self._folders.ensure(self._final.parent)
        self._incoming.rename(self._final)
        self._in_place = True
        sync_folder(self._final.parent)

    def _close(self) -> None:
        if self._descriptor is None:
            return
        try:
            if not self._in_place:
                self._incoming.unlink(missing_ok=True)
        finally:
            os.close(self._descriptor)
            self._descriptor = None
