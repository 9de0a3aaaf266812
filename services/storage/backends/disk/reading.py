"""Reads of blobs from the disk."""

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

from services.common.files import OwnedDescriptor
from services.common.rpc.options import CHUNK_BYTES
from services.storage.backends.base import BytesMissing
from services.storage.backends.disk.errors import NO_FILE, on_disk
from services.storage.backends.disk.paths import objects_folder, path_of


class DiskFile:
    """The file of a blob; see `services.storage.backends.base.StoredBytes`.

    The owner calls `open` first, and `close` in any case.
    """

    def __init__(self, root: Path, name: str) -> None:
        self._root = root
        self._path = path_of(root, name)
        self._file = OwnedDescriptor()
        self.size = 0

    async def open(self) -> None:
        """Open the file and read its size. Raises `BytesMissing`."""
        await on_disk(self._open)

    async def chunks(self, offset: int, length: int) -> AsyncIterator[bytes]:
        """Return bytes of the file in chunks."""
        end = offset + length
        while offset < end:
            chunk = await on_disk(self._read, min(CHUNK_BYTES, end - offset), offset)
            if not chunk:
                raise BytesMissing(f"the file ends at {offset}, expected {end} bytes")
            yield chunk
            offset += len(chunk)

    async def close(self) -> None:
        """Close the file."""
        await on_disk(self._file.close)

    def _open(self) -> None:
        try:
            # O_NONBLOCK, so that opening something else than a file, such as a FIFO, does not block.
            self._file.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno not in NO_FILE:
                raise
            if not objects_folder(self._root).exists():
                # The disk is not mounted, so nothing is known about the file.
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV)) from error
            raise BytesMissing("the file does not exist") from error
        size = self._file.regular_size()
        if size is None:
            raise BytesMissing("something else is in the file's place")
        self.size = size

    def _read(self, length: int, offset: int) -> bytes:
        return os.pread(self._file.number, length, offset)
