"""The errors of the storage service that more than one call raises, each worded once."""

import datetime
import math

from services.common.errors import (
    Aborted,
    DataLoss,
    FailedPrecondition,
    NotFound,
    Reason,
    ResourceExhausted,
    Unavailable,
)
from services.common.sizes import quota_message

# A status travels in HTTP/2 headers, whose size is limited.
_REASON_CHARACTERS = 200


def object_not_found(oid: str) -> NotFound:
    """Return the error that the repository does not hold the object."""
    return NotFound(Reason.OBJECT_NOT_FOUND, f"object {oid} does not exist")


def object_removed(oid: str, reason: str) -> FailedPrecondition:
    """Return the error that the object was removed; its metadata `removal_reason` has the reason, shortened."""
    shortened = reason if len(reason) <= _REASON_CHARACTERS else f"{reason[:_REASON_CHARACTERS]}…"
    return FailedPrecondition(Reason.OBJECT_REMOVED, f"object {oid} was removed: {shortened}", removal_reason=shortened)


def object_damaged(oid: str) -> DataLoss:
    """Return the error that no store has the bytes of the object as they were uploaded."""
    return DataLoss(
        Reason.OBJECT_DAMAGED,
        f"the bytes of object {oid} are damaged or lost; a push from a clone that has them heals it",
    )


def object_not_removed(oid: str) -> NotFound:
    """Return the error that there is no tombstone of the object."""
    return NotFound(Reason.OBJECT_NOT_FOUND, f"object {oid} was not removed")


def object_purged(oid: str) -> FailedPrecondition:
    """Return the error that the bytes of the removed object are not in the bin."""
    return FailedPrecondition(Reason.OBJECT_PURGED, f"the bytes of object {oid} are not in the bin any more")


def repository_deleted() -> NotFound:
    """Return the error that nothing can be added to the repository any more."""
    return NotFound(Reason.REPOSITORY_NOT_FOUND, "the repository was deleted")


def storage_full() -> ResourceExhausted:
    """Return the error that there is no room for the bytes."""
    return ResourceExhausted(Reason.STORAGE_FULL, "no room is left for these bytes")


def quota_exceeded(used: int, quota: int, *, is_of_user: bool) -> ResourceExhausted:
    """Return the error that a quota has no room for the bytes, of which `used` are held or reserved."""
    return ResourceExhausted(Reason.QUOTA_EXCEEDED, quota_message(used, quota, is_of_user=is_of_user))


def bandwidth_exceeded(limit: int, now: datetime.datetime) -> ResourceExhausted:
    """Return the error that the repository has used up today's bandwidth; its metadata says when the day ends."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + datetime.timedelta(days=1)
    return ResourceExhausted(
        Reason.BANDWIDTH_EXCEEDED,
        f"the repository has moved the {limit} bytes that it may move in a day (UTC)",
        retry_after=str(math.ceil((midnight - now).total_seconds())),
    )


def upload_given_up() -> Unavailable:
    """Return the error that another process took this process for gone, and abandoned the upload."""
    return Unavailable(Reason.UNAVAILABLE, "the connection to the database was lost while the bytes came")


def store_gone() -> Unavailable:
    """Return the error that the store to which the bytes were to go has just been deleted."""
    return Unavailable(Reason.UNAVAILABLE, "the list of stores has changed in this moment")


def collection_running() -> Aborted:
    """Return the error that another collection has to end first."""
    return Aborted(
        Reason.COLLECTION_RUNNING, "garbage of this repository, or of several others, is being collected at present"
    )


def collection_ended() -> Aborted:
    """Return the error that a collection took so long that what it retains has been forgotten."""
    return Aborted(Reason.COLLECTION_RUNNING, "the collection took more than a day; make the list anew")


def too_much_garbage(share: float, most_percent: int) -> FailedPrecondition:
    """Return the error that more would be removed than the caller expects."""
    return FailedPrecondition(
        Reason.TOO_MUCH_GARBAGE,
        f"most_percent: {share:.1f} % of what the repository holds is garbage, expected at most {most_percent} %; "
        "nothing was removed",
    )
