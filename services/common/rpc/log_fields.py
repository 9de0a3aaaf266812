"""Fields of the log line of a call beside its method: the user, the repository, counts and sizes."""

from contextvars import ContextVar

Value = str | int

# Fields of requests that are names or ids and no secrets. Fields that are not listed are not logged.
_NAMES = ("repository_id", "repository", "user_id", "user_name", "oid")
_COUNTED = ("objects", "repository_ids")
# The length of the longest valid name.
_MAX_CHARACTERS = 255

_current: ContextVar[dict[str, Value] | None] = ContextVar("call_fields", default=None)


def start_log_fields() -> dict[str, Value]:
    """Begin the fields of a call that is being served, and return them; `add_log_fields` adds to them."""
    fields: dict[str, Value] = {}
    _current.set(fields)
    return fields


def add_log_fields(**fields: Value) -> None:
    """Add fields, never a credential, to the log line of the call that is being served; outside of one, do nothing."""
    current = _current.get()
    if current is not None:
        current.update(fields)


def log_request_fields(request: object) -> None:
    """Add the fields of a request that are known to be harmless: names, ids, the number of objects."""
    for name in _NAMES:
        if value := getattr(request, name, None):
            add_log_fields(**{name: value[:_MAX_CHARACTERS] if isinstance(value, str) else value})
    for name in _COUNTED:
        if (values := getattr(request, name, None)) is not None:
            add_log_fields(objects=len(values))
