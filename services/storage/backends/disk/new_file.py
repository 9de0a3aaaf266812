"""A file that is written once, from its beginning to its end."""

import errno
import fcntl
import mmap
import os
from pathlib import Path

from services.storage.backends.base import Chunk

# Smaller files stay in the page cache because a client that waits for the push is likely to read them soon.
_DIRECT_FROM_BYTES = 16 * 1024 * 1024
_BLOCK_BYTES = 1024 * 1024
# Not every system has O_DIRECT.
_DIRECT: int = getattr(os, "O_DIRECT", 0)


class NewFile:
    """A file that is being written, by one thread at a time; its owner closes it.

    The bytes of a large file bypass the page cache, if the file system allows it: the kernel need not find pages for
    them, they are copied once less, and `sync` finds little left to do.
    """

    def __init__(self, path: Path, size: int) -> None:
        """Create the file, for `size` bytes. Raises FileExistsError if it exists."""
        # O_DIRECT writes whole pages only, from memory that is aligned to pages.
        self._block = mmap.mmap(-1, _BLOCK_BYTES) if size >= _DIRECT_FROM_BYTES else None
        self._filled = 0
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        self._is_direct = self._block is not None and self._set_direct(direct=True)
        if not self._is_direct:
            self._block = None

    def write(self, chunk: Chunk) -> None:
        """Append bytes."""
        if self._block is None:
            self._write(memoryview(chunk))
            return
        rest = memoryview(chunk)
        while rest:
            part = rest[: _BLOCK_BYTES - self._filled]
            end = self._filled + len(part)
            self._block[self._filled : end] = part
            self._filled = end
            rest = rest[len(part) :]
            if end == _BLOCK_BYTES:
                self._write_block(self._block)

    def start_sync(self) -> None:
        """Start writeback in the kernel, so that each `sync` waits less if several files are synced in turn."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def sync(self) -> None:
        """Make all bytes durable. Nothing may be written afterwards."""
        if self._block is not None and self._filled:
            self._leave_direct()
            self._write_block(self._block)
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _write_block(self, block: mmap.mmap) -> None:
        self._write(memoryview(block)[: self._filled])
        self._filled = 0

    def _write(self, rest: memoryview) -> None:
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except OSError as error:
                if not (self._is_direct and error.errno == errno.EINVAL):
                    raise
                # The file system needs larger pages, or the last write was cut short within a page.
                self._leave_direct()

    def _leave_direct(self) -> None:
        self._set_direct(direct=False)
        self._is_direct = False

    def _set_direct(self, *, direct: bool) -> bool:
        """Switch O_DIRECT on or off; return whether the file system supports that."""
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | _DIRECT if direct else flags & ~_DIRECT)
        except OSError:
            return False
        return True
