"""The errors of the storage service that more than one call raises, each worded once."""

from services.common.errors import FailedPrecondition, NotFound, Reason, ResourceExhausted, Unavailable

# A status travels in HTTP/2 headers, which may not be long.
_REASON_CHARACTERS = 200


def object_not_found(oid: str) -> NotFound:
    """Say that the repository does not hold the object."""
    return NotFound(Reason.OBJECT_NOT_FOUND, f"object {oid} does not exist")


def object_removed(oid: str, reason: str) -> FailedPrecondition:
    """Say that the object was removed on purpose; the metadata `removal_reason` says why, shortened."""
    shortened = reason if len(reason) <= _REASON_CHARACTERS else f"{reason[:_REASON_CHARACTERS]}…"
    return FailedPrecondition(Reason.OBJECT_REMOVED, f"object {oid} was removed: {shortened}", removal_reason=shortened)


def repository_deleted() -> NotFound:
    """Say that nothing is added to the repository any more."""
    return NotFound(Reason.REPOSITORY_NOT_FOUND, "the repository was deleted")


def storage_full() -> ResourceExhausted:
    """Say that there is no room for the bytes."""
    return ResourceExhausted(Reason.STORAGE_FULL, "no room is left for these bytes")


def bandwidth_exceeded(limit: int) -> ResourceExhausted:
    """Say that the repository has moved all the bytes that it may move today."""
    return ResourceExhausted(
        Reason.BANDWIDTH_EXCEEDED, f"the repository has moved the {limit} bytes that it may move in a day (UTC)"
    )


def upload_given_up() -> Unavailable:
    """Say that others took this process for gone while the bytes came."""
    return Unavailable(Reason.UNAVAILABLE, "the connection to the database was lost while the bytes came")


def store_gone() -> Unavailable:
    """Say that the store to which the bytes were to go was forgotten in this moment."""
    return Unavailable(Reason.UNAVAILABLE, "the list of stores has changed in this moment")
