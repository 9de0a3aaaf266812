"""Reasons for which the facade itself refuses a request, in addition to the reasons that all services share."""

from collections.abc import Iterable
from enum import StrEnum

from services.common.errors import ServiceError


class HttpReason(StrEnum):
    """The reasons that exist only in the facade; `errors.http_status` maps each to an HTTP status."""

    BATCH_REFUSED = "BATCH_REFUSED"
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    CLIENT_SILENT = "CLIENT_SILENT"
    CLIENT_SLOW = "CLIENT_SLOW"
    CROSS_SITE = "CROSS_SITE"
    INSECURE = "INSECURE"
    INVALID_HOST = "INVALID_HOST"
    INVALID_REPLY = "INVALID_REPLY"
    LOGINS_LIMITED = "LOGINS_LIMITED"
    LOGINS_REFUSED = "LOGINS_REFUSED"
    MALFORMED_JSON = "MALFORMED_JSON"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    NOT_ACCEPTABLE = "NOT_ACCEPTABLE"
    PRECONDITION_FAILED = "PRECONDITION_FAILED"
    ROUTE_NOT_FOUND = "ROUTE_NOT_FOUND"
    SIGN_IN_REFUSED = "SIGN_IN_REFUSED"
    TOKEN_REFUSED = "TOKEN_REFUSED"  # noqa: S105 - the name of a reason, not a secret
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"


def method_not_allowed(method: str, allowed: Iterable[str]) -> ServiceError:
    """Return the error for a method that an address does not support, with the metadata `allow`."""
    allow = ", ".join(sorted(allowed))
    message = f"the method {method} is not allowed here; allowed: {allow}"
    return ServiceError(HttpReason.METHOD_NOT_ALLOWED, message, allow=allow)


class ClientDisconnected(Exception):
    """The client closed the connection: there is nobody to answer."""


def invalid_reply(call: str, problem: str) -> ServiceError:
    """Return the error for a reply of an inner service that breaks its contract."""
    return ServiceError(HttpReason.INVALID_REPLY, f"{call}: {problem}")
