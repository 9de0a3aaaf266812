"""Outcomes of calls that would take a path on which another lock stands."""

from services.common.errors import AlreadyExists, Reason
from services.locks.api.messages import lock_message
from services.locks.locking.steal import Theft
from services.locks.locking.table import LockWithOwner
from services.locks.metrics import LOCK_CONFLICTS, LOCKS_STOLEN
from services.locks.models import ReleasedLock


def path_locked(lock: LockWithOwner) -> AlreadyExists:
    """Return the error for a path on which a lock stands, which is the detail of the error."""
    return AlreadyExists(Reason.PATH_LOCKED, f"the path is locked by {lock.owner_name}", detail=lock_message(lock))


def stolen(theft: Theft) -> ReleasedLock:
    """Return the lock that has made way, and count the theft. Raises `AlreadyExists` (PATH_LOCKED) if none has."""
    if theft.previous is None:
        LOCK_CONFLICTS.inc()
        raise path_locked(theft.lock)
    LOCKS_STOLEN.inc()
    return theft.previous
