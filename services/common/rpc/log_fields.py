"""What the log line of a call tells beside its method: whose, of which repository, how many, how much."""

from contextvars import ContextVar

Value = str | int

# Fields of requests that name things and are no secret. What is not listed here is not logged.
_NAMES = ("repository_id", "repository", "user_id", "user_name", "oid")
_COUNTED = ("objects", "repository_ids")
# As long as the longest name; a longer one is none.
_MAX_CHARACTERS = 255

_current: ContextVar[dict[str, Value] | None] = ContextVar("call_fields", default=None)


def start_log_fields() -> dict[str, Value]:
    """Begin the fields of a call that is being served, and return them; `note` adds to them."""
    fields: dict[str, Value] = {}
    _current.set(fields)
    return fields


def add_log_fields(**fields: Value) -> None:
    """Add fields to the log line of the call that is being served; never a credential. Outside of one it is lost."""
    current = _current.get()
    if current is not None:
        current.update(fields)


def log_request_fields(request: object) -> None:
    """Note what a request says in fields that are known to be harmless: a name, an id, how many objects."""
    for name in _NAMES:
        if value := getattr(request, name, None):
            add_log_fields(**{name: value[:_MAX_CHARACTERS] if isinstance(value, str) else value})
    for name in _COUNTED:
        if (values := getattr(request, name, None)) is not None:
            add_log_fields(objects=len(values))
