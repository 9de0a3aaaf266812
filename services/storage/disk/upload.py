"""An upload to the disk."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from services.common.undivided import in_thread
from services.storage.backend import Chunk
from services.storage.disk.durable import Folders
from services.storage.disk.new_file import NewFile
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
    """One upload; see `services.storage.backend.Upload`. `close` ends it in any case.

    Bytes that come in one piece are held until `finish`, which then does all there is to do in one thread: for small
    objects the ways there and back cost more than the work. For others the first piece makes the file.
    """

    def __init__(self, root: Path, folders: Folders, name: str, size: int) -> None:
        self._folders = folders
        self._path = incoming_path(root, name)
        self._final = path_of(root, name)
        self._size = size
        self._held: Chunk = b""
        self._file: NewFile | None = None
        self._is_durable = False

    async def write(self, chunk: Chunk) -> None:
        """Add bytes at the end. Raises FileExistsError for a name that is used already."""
        if self._file is None and not self._held and len(chunk) == self._size:
            self._held = chunk
        else:
            await _in_thread(self._write, chunk)

    async def finish(self) -> None:
        """Put the file in place, durably. Raises FileExistsError as `write` does."""
        await _in_thread(self._finish)

    async def close(self) -> None:
        """End the upload: its file goes, unless it is in place."""
        if self._file is not None:
            await in_thread(self._close)

    def _opened(self) -> NewFile:
        if self._file is None:
            self._file = NewFile(self._path, self._size)
        return self._file

    def _write(self, chunk: Chunk) -> None:
        file = self._opened()
        if self._held:
            file.write(self._held)
            self._held = b""
        file.write(chunk)

    def _finish(self) -> None:
        try:
            self._write(b"")
            self._put_in_place()
        finally:
            self._close()

    def _put_in_place(self) -> None:
        folder = self._final.parent
        self._folders.make(folder)
        # Nobody looks under the name before this has returned. So it is given before the bytes are synced, and a file
        # system with a journal writes it together with them.
        self._path = self._path.rename(self._final)
        self._opened().sync()
        self._folders.sync(folder)
        self._is_durable = True

    def _close(self) -> None:
        if self._file is None:
            return
        try:
            if not self._is_durable:
                self._path.unlink(missing_ok=True)
        finally:
            self._file.close()
            self._file = None
