"""Validation of the fields of requests."""

from collections.abc import Collection, Mapping

from services.common.errors import InvalidArgument, Reason
from services.common.oid import is_oid
from services.storage.intent import Intent

REASON_CHARACTERS = 1000
PAGE_DEFAULT = 100
PAGE_MAX = 1000
DAYS_MAX = 366
OIDS_MAX = 1000
_MAX_WAIT_SECONDS = 5


def repository_id(value: int) -> int:
    """Return a repository's id. Raises `InvalidArgument` unless it is positive."""
    if value <= 0:
        raise InvalidArgument(Reason.INVALID_FIELD, f"repository_id: expected a positive number, got {value}")
    return value


def user_id(value: int) -> int | None:
    """Return a user's id; None for 0, which is nobody's. Raises `InvalidArgument` if it is negative."""
    return not_negative("user_id", value) or None


def oid(value: str) -> str:
    """Return an oid. Raises `InvalidArgument` (INVALID_OID) for anything else, whatever its length."""
    if not is_oid(value):
        raise InvalidArgument(Reason.INVALID_OID, f"oid: expected 64 lower-case hexadecimal digits, got {value[:80]!a}")
    return value


def other_repository_id(value: int, *, than: int) -> int:
    """Return a repository's id. Raises `InvalidArgument` as `repository_id` does, and if it is the id `than`."""
    if repository_id(value) == than:
        raise InvalidArgument(Reason.INVALID_FIELD, f"to_repository_id: expected another repository than {than}")
    return value


def oids(values: Collection[str]) -> list[str]:
    """Return oids, each once, in ascending order. Raises `InvalidArgument`."""
    if len(values) > OIDS_MAX:
        raise InvalidArgument(Reason.BATCH_TOO_LARGE, f"oids: expected at most {OIDS_MAX}, got {len(values)}")
    return sorted({oid(value) for value in values})


def not_negative(name: str, value: int) -> int:
    """Return a number. Raises `InvalidArgument` if it is negative."""
    if value < 0:
        raise InvalidArgument(Reason.INVALID_FIELD, f"{name}: expected at least 0, got {value}")
    return value


def wait_seconds(value: float) -> float:
    """Return the number of seconds that a request waits for a change. Raises `InvalidArgument`."""
    if not 0 <= value <= _MAX_WAIT_SECONDS:
        raise InvalidArgument(Reason.INVALID_FIELD, f"wait_seconds: expected 0 to {_MAX_WAIT_SECONDS}")
    return value


def positive(name: str, value: int) -> int:
    """Return a number. Raises `InvalidArgument` unless it is at least 1."""
    if value < 1:
        raise InvalidArgument(Reason.INVALID_FIELD, f"{name}: expected at least 1, got {value}")
    return value


def limit(name: str, value: int) -> int | None:
    """Return a limit in bytes: 0 for none, and None, the default of the settings, for -1. Raises `InvalidArgument`."""
    if value < -1:
        raise InvalidArgument(Reason.INVALID_FIELD, f"{name}: expected at least 0, or -1 for the default, got {value}")
    return None if value == -1 else value


def limited_party(ids: Mapping[str, int], changes: Mapping[str, int | None]) -> tuple[str, int]:
    """Return the one field of `ids` that is set, and its id. Raises `InvalidArgument`."""
    given = [(field, id_) for field, id_ in ids.items() if id_]
    if len(given) != 1 or given[0][1] < 0:
        raise InvalidArgument(Reason.INVALID_FIELD, f"expected one of {', '.join(ids)}, a positive number")
    if "bandwidth_bytes" in changes and given[0][0] != "repository_id":
        raise InvalidArgument(Reason.INVALID_FIELD, "bandwidth_bytes: expected a repository")
    return given[0]


def user_ids(values: Collection[int]) -> list[int]:
    """Return the ids of users. Raises `InvalidArgument`."""
    if len(values) > PAGE_MAX or any(value <= 0 for value in values):
        raise InvalidArgument(Reason.INVALID_FIELD, f"user_ids: expected at most {PAGE_MAX} positive numbers")
    return list(values)


def largest(value: int, *, repositories: int) -> int:
    """Return how many of the largest objects of one repository are asked for. Raises `InvalidArgument`."""
    if value and repositories != 1:
        raise InvalidArgument(Reason.INVALID_FIELD, f"largest: expected 0 for {repositories} repositories")
    return min(not_negative("largest", value), PAGE_MAX)


def days(value: int, *, repositories: int) -> int:
    """Return of how many days the usage of one repository is asked for. Raises `InvalidArgument`."""
    if value and repositories != 1:
        raise InvalidArgument(Reason.INVALID_FIELD, f"days: expected 0 for {repositories} repositories")
    if not 0 <= value <= DAYS_MAX:
        raise InvalidArgument(Reason.INVALID_FIELD, f"days: expected 0 to {DAYS_MAX}, got {value}")
    return value


def transfer(value: Intent) -> Intent:
    """Return the intent to read or to write. Raises `InvalidArgument` for neither."""
    if value is Intent.NONE:
        raise InvalidArgument(Reason.INVALID_FIELD, "intent: expected one to read or to write")
    return value


def removal_text(name: str, value: str, *, required: bool) -> str:
    """Return a text to be stored with a tombstone. Raises `InvalidArgument` for an unsuitable text."""
    if required and not value.strip():
        raise InvalidArgument(Reason.INVALID_FIELD, f"{name}: expected a text, got an empty one")
    if len(value) > REASON_CHARACTERS or "\0" in value:
        raise InvalidArgument(
            Reason.INVALID_FIELD, f"{name}: expected at most {REASON_CHARACTERS} characters and none of them NUL"
        )
    return value


def page_limit(value: int) -> int:
    """Return the size of a page: the default for 0, never more than the maximum. Raises as `not_negative` does."""
    return min(not_negative("limit", value) or PAGE_DEFAULT, PAGE_MAX)
