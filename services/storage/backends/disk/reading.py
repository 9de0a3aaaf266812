"""Reading bytes from the disk."""

import errno
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

from services.common.rpc.options import CHUNK_BYTES
from services.storage.backends.base import BytesMissing
from services.storage.backends.disk.errors import on_disk
from services.storage.backends.disk.paths import objects_folder, path_of


class DiskFile:
    """An object's file; see `services.storage.backends.base.StoredBytes`.

    `open` begins, and `close` ends it in any case.
    """

    def __init__(self, root: Path, name: str) -> None:
        self._root = root
        self._path = path_of(root, name)
        self._descriptor: int | None = None
        self.size = 0

    async def open(self) -> None:
        """Open the file and learn its size. Raises `BytesMissing`."""
        await on_disk(self._open)

    async def chunks(self, offset: int, length: int) -> AsyncIterator[bytes]:
        """Return bytes of the file in pieces."""
        end = offset + length
        while offset < end:
            chunk = await on_disk(self._read, min(CHUNK_BYTES, end - offset), offset)
            if not chunk:
                raise BytesMissing(f"the file ends at {offset}, expected {end} bytes")
            yield chunk
            offset += len(chunk)

    async def close(self) -> None:
        """Close the file."""
        await on_disk(self._close)

    def _open(self) -> None:
        try:
            # What is no file, such as a FIFO, must not hold up its opening.
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            if not objects_folder(self._root).exists():
                # The disk is not mounted: that says nothing of the file.
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV)) from error
            raise BytesMissing("the file does not exist") from error
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BytesMissing("something else is in the file's place")
        self.size = status.st_size

    def _read(self, length: int, offset: int) -> bytes:
        if self._descriptor is None:
            raise ValueError("the file is not open")
        return os.pread(self._descriptor, length, offset)

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
