"""Regular files, read and written in threads. Somebody may have changed them since they were written."""

import errno
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from services.common.concurrency.uncancellable import run_in_thread

_PIECE_BYTES = 1024 * 1024


def open_file(path: Path) -> BufferedReader:
    """Open a regular file for reading. Raises OSError, also for a FIFO, which would block its reader for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "something else is in the file's place", str(path))
    return os.fdopen(descriptor, "rb")


async def pieces_of(path: Path) -> AsyncGenerator[bytes]:
    """Yield the bytes of a regular file. Raises the errors of `open_file`."""
    file = await run_in_thread(open_file, path)
    try:
        while piece := await run_in_thread(file.read, _PIECE_BYTES):
            yield piece
    finally:
        await run_in_thread(file.close)


@asynccontextmanager
async def new_file(path: Path) -> AsyncIterator[BinaryIO]:
    """Create a file for the block to write. Its bytes are durable at the end of the block; its name is not."""
    file = await run_in_thread(path.open, "xb")
    try:
        yield file
        await run_in_thread(file.flush)
        await run_in_thread(os.fsync, file.fileno())
    finally:
        await run_in_thread(file.close)
