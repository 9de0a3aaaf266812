"""Translation of disk errors into the errors of a backend."""

import errno
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from services.common.concurrency.uncancellable import run_in_thread
from services.common.errors import Reason, Unavailable
from services.common.observability.logs import get_logger
from services.storage.errors import storage_full

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# A link to itself is ELOOP.
NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

# These errors concern a single name and say nothing about the disk.
_OF_A_NAME = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)

_log = get_logger(__name__)


async def on_disk(
    function: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Run blocking work on the disk as `run_in_thread` does.

    Raises `ResourceExhausted` (STORAGE_FULL) if no room is left, and `Unavailable` if the disk or the host fails the
    work: for example an I/O error, a read-only file system, or too many open files.
    """
    try:
        return await run_in_thread(function, *args, **kwargs)
    except _OF_A_NAME:
        raise
    except OSError as error:
        if error.errno in NO_ROOM:
            raise storage_full() from error
        _log.warning("the disk refuses", error=repr(error))
        raise Unavailable(Reason.UNAVAILABLE, f"the disk cannot be used: {error.strerror or error}") from error
