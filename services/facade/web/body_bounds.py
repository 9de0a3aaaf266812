"""Bounds of JSON bodies, which hold before a body is read, or before each of its parts is looked at."""

from services.common.errors import InvalidArgument, Reason, ResourceExhausted
from services.facade.web.schemas import MAX_TRANSFERS

# Enough for a path of 4,096 bytes, a note and a reason whose non-ASCII characters are JSON escapes, and a ref.
LOCK_BYTES = 32 * 1024
"""The most bytes of a body about one lock."""

# Enough for a thousand paths of a thousand bytes.
LOCK_PATHS_BYTES = 1024 * 1024
"""The most bytes of a body about the locks of many paths."""

# An entry with the largest size, indented; and the rest of the body, in which the client chooses the ref's length.
_ENTRY_BYTES = 160
_REST_BYTES = 64 * 1024


def batch_bytes(max_objects: int) -> int:
    """Return the most bytes of a batch's body."""
    return max_objects * _ENTRY_BYTES + _REST_BYTES


def check_lengths(value: object, *, max_objects: int) -> None:
    """Raise for too many objects (`ResourceExhausted`, BATCH_TOO_LARGE) or transfers (`InvalidArgument`) in a body.

    The check runs on the body's JSON value, because validating each entry takes long where there are many.
    """
    if not isinstance(value, dict):
        return
    objects, transfers = value.get("objects"), value.get("transfers")
    if isinstance(objects, list) and len(objects) > max_objects:
        raise ResourceExhausted(
            Reason.BATCH_TOO_LARGE,
            f"objects: expected at most {max_objects}; set lfs.transfer.batchSize to {max_objects} or less",
        )
    if isinstance(transfers, list) and len(transfers) > MAX_TRANSFERS:
        raise InvalidArgument(Reason.INVALID_FIELD, f"transfers: expected at most {MAX_TRANSFERS}")
