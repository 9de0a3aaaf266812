"""The id that ties one client's request to the log lines of every service it passed."""

import re
import uuid
from contextvars import ContextVar

METADATA_KEY = "x-request-id"

_ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_current: ContextVar[str] = ContextVar("request_id", default="")


def current() -> str:
    """Return the id of the request being served, or an empty string outside of one."""
    return _current.get()


def is_acceptable(offered: str) -> bool:
    """Tell whether `offered` can be an id: 1 to 64 of [A-Za-z0-9._-]."""
    return _ACCEPTED.fullmatch(offered) is not None


def adopt(offered: str | None) -> str:
    """Make `offered` the current id if it is acceptable, else a new one; return it."""
    request_id = offered if offered and is_acceptable(offered) else uuid.uuid4().hex
    _current.set(request_id)
    return request_id
