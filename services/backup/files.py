"""Access to the files of a backup. Somebody may have changed them since they were written."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


def open_file(path: Path) -> BufferedReader:
    """Open a regular file for reading. Raises OSError, also for a FIFO, which would block its reader for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "something else is in the file's place", str(path))
    return os.fdopen(descriptor, "rb")
