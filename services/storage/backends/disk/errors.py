"""What a disk refuses, as the callers of a backend know it."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from services.common.concurrency.uncancellable import run_in_thread
from services.common.errors import Reason, Unavailable
from services.common.observability.logs import get_logger
from services.storage.errors import storage_full

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# What is under a name, or is not, says nothing of the disk.
_OF_A_NAME = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)

_log = get_logger(__name__)


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except _OF_A_NAME:
        raise
    except OSError as error:
        if error.errno in NO_ROOM:
            raise storage_full() from error
        _log.warning("the disk refuses", error=repr(error))
        raise Unavailable(Reason.UNAVAILABLE, f"the disk cannot be used: {error.strerror or error}") from error


async def on_disk(
    function: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Do what `run_in_thread` does for work on the disk.

    Raises `ResourceExhausted` (STORAGE_FULL) where no room is left, and `Unavailable` where the disk, or the host, does
    not let it be used: input and output fail, it can only be read, too many files are open.
    """
    with _disk_errors():
        return await run_in_thread(function, *args, **kwargs)
