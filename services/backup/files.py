"""The files of a backup, which somebody may have changed since."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


def open_file(path: Path) -> BufferedReader:
    """Open a file for reading. Raises OSError, also for what is none: a FIFO would hold up its reader for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "something else is in the file's place", str(path))
    return os.fdopen(descriptor, "rb")
