"""Types of the events that webhooks deliver, and the patterns by which a hook selects them."""

from collections.abc import Iterable

from services.common.errors import InvalidArgument, Reason

LOCK_CREATED = "lock.created"
LOCK_RELEASED = "lock.released"
LOCK_STOLEN = "lock.stolen"
OBJECT_REMOVED = "object.removed"

QUOTA_WARNED = "quota.warned"
QUOTA_EXCEEDED = "quota.exceeded"

EVENT_TYPES = (LOCK_CREATED, LOCK_RELEASED, LOCK_STOLEN, OBJECT_REMOVED, QUOTA_WARNED, QUOTA_EXCEEDED)

_PATTERNS = (*EVENT_TYPES, "lock.*", "object.*", "quota.*")


def check_event_patterns(field: str, patterns: Iterable[str]) -> list[str]:
    """Return the distinct patterns. Raises `InvalidArgument` unless there is one, and each is known."""
    distinct = list(dict.fromkeys(patterns))
    if not distinct or not set(distinct) <= set(_PATTERNS):
        raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected some of {', '.join(_PATTERNS)}")
    return distinct
