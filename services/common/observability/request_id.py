"""The request id: it ties one client's request to the log lines of every service that the request passes."""

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
    """Return whether `offered` can be a request id: 1 to 64 of [A-Za-z0-9._-]."""
    return _ACCEPTED.fullmatch(offered) is not None


def adopt(offered: str | None) -> str:
    """Make `offered` the current request id if it is acceptable, else a new id; return the current id."""
    request_id = offered if offered and is_acceptable(offered) else uuid.uuid4().hex
    _current.set(request_id)
    return request_id
