"""Orphans, the services that outlive a killed `towpath up`: they stop by themselves, and the next start waits for them.

Every service inherits the lock on a file in the runtime folder. The lock is free once all services have ended.
"""

import asyncio
import fcntl
import os
from pathlib import Path

from services.cli.errors import CommandError

_WAIT_SECONDS = 60.0
_INTERVAL_SECONDS = 0.1


async def lock_out_orphans(runtime: Path) -> int:
    """Wait until no service of an earlier `towpath up` runs, and return the lock for our services to inherit.

    The caller closes the descriptor. Raises `CommandError` if a service still runs after 60 s.
    """
    descriptor = _open_lock(runtime)
    try:
        async with asyncio.timeout(_WAIT_SECONDS):
            while not _is_free(descriptor):  # noqa: ASYNC110 - the release of a file lock sets no event
                await asyncio.sleep(_INTERVAL_SECONDS)
    except TimeoutError:
        os.close(descriptor)
        raise CommandError(
            f"some of an earlier `towpath up` still run after {_WAIT_SECONDS:.0f} s: they hold {runtime}/services.lock"
        ) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_lock(runtime: Path) -> int:
    descriptor = os.open(runtime / "services.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if os.geteuid() == 0:
        # Root restores for an account, and the account must be able to open the file afterwards.
        owner = runtime.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
