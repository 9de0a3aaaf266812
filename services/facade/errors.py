"""From a status and a reason to HTTP: the one table, and the one place where an error's answer is written."""

from collections.abc import Iterator
from enum import StrEnum

import grpc
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope
from towpath.locks.v1 import lock_service_pb2

from services.common.errors import Reason, ServiceError
from services.common.observability import request_id
from services.common.observability.logs import get_logger
from services.facade.locks.rendering import lock_body
from services.facade.web import media_types, schemas
from services.facade.web.error_reasons import ClientDisconnected, HttpReason
from services.facade.web.responses import json_response


class Area(StrEnum):
    """Where in the interface a request belongs; some errors have another status there."""

    BATCH = "batch"
    LOCKS = "locks"
    ACTIONS = "actions"
    ELSEWHERE = "elsewhere"


_HTTP: dict[tuple[Area | None, str | grpc.StatusCode], int] = {
    # By reason, where it says more than the status.
    (None, HttpReason.CLIENT_SILENT): 408,
    (None, HttpReason.CLIENT_SLOW): 408,
    (None, HttpReason.INVALID_HOST): 400,
    (None, HttpReason.LOGINS_LIMITED): 429,
    (None, HttpReason.MALFORMED_JSON): 400,
    (None, HttpReason.METHOD_NOT_ALLOWED): 405,
    (None, HttpReason.NOT_ACCEPTABLE): 406,
    (None, HttpReason.PRECONDITION_FAILED): 412,
    (None, HttpReason.UNSUPPORTED_MEDIA_TYPE): 415,
    (None, HttpReason.INVALID_REPLY): 502,
    (None, HttpReason.BODY_TOO_LARGE): 413,
    (None, Reason.BATCH_TOO_LARGE): 413,
    (None, Reason.RATE_LIMITED): 429,
    (None, Reason.STORAGE_FULL): 507,
    (None, Reason.BANDWIDTH_EXCEEDED): 509,
    (None, Reason.OBJECT_REMOVED): 410,
    (None, Reason.LOCK_NOT_FOUND): 404,
    # Clients repeat a 429 and a 507; of what the protocol has for locks, this is what a person can do something about.
    (None, Reason.TOO_MANY_LOCKS): 403,
    # By reason only: an UNAUTHENTICATED without one is a wrong secret between services, no fault of the client.
    (None, Reason.BAD_CREDENTIALS): 401,
    (None, Reason.CREDENTIALS_REQUIRED): 401,
    # The inner service was stopped in the midst of the call.
    (None, grpc.StatusCode.CANCELLED.name): 503,
    # A client takes 404 or 501 from `locks/verify` for "no locking here", for good (client row 8).
    (Area.LOCKS, grpc.StatusCode.NOT_FOUND): 403,
    (Area.LOCKS, grpc.StatusCode.UNIMPLEMENTED): 500,
    # A client takes 422 on an upload for success (client row 1), and repeats a 401 for ever (client row 5).
    (Area.ACTIONS, grpc.StatusCode.INVALID_ARGUMENT): 400,
    (Area.ACTIONS, Reason.BAD_CREDENTIALS): 403,
    (Area.ACTIONS, Reason.CREDENTIALS_REQUIRED): 403,
    (None, grpc.StatusCode.INVALID_ARGUMENT): 422,
    (None, grpc.StatusCode.PERMISSION_DENIED): 403,
    (None, grpc.StatusCode.NOT_FOUND): 404,
    (None, grpc.StatusCode.ALREADY_EXISTS): 409,
    (None, grpc.StatusCode.OUT_OF_RANGE): 416,
    (None, grpc.StatusCode.UNIMPLEMENTED): 501,
    (None, grpc.StatusCode.UNAVAILABLE): 503,
    (None, grpc.StatusCode.ABORTED): 503,
    (None, grpc.StatusCode.DEADLINE_EXCEEDED): 504,
}
_OTHERWISE = 500
# What nginx writes in its log for the same; nobody receives it.
_CLIENT_CLOSED_REQUEST = 499

# What is told of a failure inside, whatever its own words are.
_TOLD = {
    500: "internal error",
    501: "this is not implemented",
    502: "an inner service gave an answer that is not whole",
    503: "the service is not available for the moment",
    504: "an inner service did not answer in time",
}
# The client of the widespread dialect, and browsers.
_NO_STANDARD_AGENTS = ("git-lfs/", "Mozilla/")
_STANDARD_AGENT = "Mercurial"
_RETRY_SECONDS = {429: "10", 503: "5"}

_log = get_logger(__name__)


def http_status(error: ServiceError, area: Area) -> int:
    """Return the HTTP status of an error: by its reason, then by its gRPC status, in the area before everywhere."""
    keys = ((area, error.reason), (None, error.reason), (area, error.status), (None, error.status))
    return next((_HTTP[key] for key in keys if key in _HTTP), _OTHERWISE)


class ErrorRenderer:
    """Writes the answer for an error, in the caller's dialect."""

    def __init__(self, *, realm: str, documentation_url: str | None) -> None:
        self._challenge = f'Basic realm="{realm}"'
        self._documentation_url = documentation_url

    def answer(self, error: Exception, scope: Scope) -> Response:
        """Return the answer to a request that failed; log a `ServiceError` that is no fault of the client.

        Any other error is for the caller to log, or to raise again.
        """
        if isinstance(error, ClientDisconnected):
            return Response(status_code=_CLIENT_CLOSED_REQUEST)
        if not isinstance(error, ServiceError):
            return self.render(ServiceError(Reason.INTERNAL, "internal error"), scope)
        if http_status(error, _area_of(scope)) >= _OTHERWISE:
            _log.error("request failed", status=error.status.name, reason=error.reason, message=error.message)
        return self.render(error, scope)

    def render(self, error: ServiceError, scope: Scope) -> Response:
        """Return the answer: the Error body, with the challenges on 401, Retry-After on 429 and 503, Allow on 405.

        The metadata `retry_after` (seconds), `allow` and `size` of the error go into headers. What is told of a failure
        inside says nothing of the inside; the message of a 5xx names the request id, as clients show nothing else.
        """
        area = _area_of(scope)
        status = http_status(error, area)
        message = _TOLD.get(status, error.message)
        if status >= _OTHERWISE:
            message = f"{message} (request id {request_id.current()})"
        standing = error.detail if isinstance(error.detail, lock_service_pb2.Lock) else None
        body = schemas.Error(
            message=message,
            request_id=request_id.current(),
            documentation_url=self._documentation_url,
            lock=schemas.Lock.model_validate(lock_body(standing)) if standing is not None else None,
        )
        response = json_response(body, dialect_of(scope), status=status)
        if status == 401:
            for name in _challenges(Headers(scope=scope), area):
                response.headers[name] = self._challenge
        if status in _RETRY_SECONDS:
            response.headers["Retry-After"] = error.metadata.get("retry_after", _RETRY_SECONDS[status])
        if status == 405:
            response.headers["Allow"] = error.metadata["allow"]
        if status == 416 and "size" in error.metadata:
            response.headers["Content-Range"] = f"bytes */{error.metadata['size']}"
        return response


def _area_of(scope: Scope) -> Area:
    area: Area = scope.get("state", {}).get("area", Area.ELSEWHERE)
    return area


def _challenges(headers: Headers, area: Area) -> Iterator[str]:
    """Yield the headers in which a 401 names the scheme and the realm.

    The standard one makes a browser ask for a password, so the interface has names of its own, and those who know it
    are not told by the standard one. Mercurial knows the interface, says that it is git-lfs, and needs it.
    """
    yield from (spoken.challenge for spoken in media_types.DIALECTS)
    agent = headers.get("user-agent", "")
    knows_ours = agent.startswith(_NO_STANDARD_AGENTS) or media_types.is_named(headers.getlist("accept"))
    if area not in (Area.BATCH, Area.LOCKS) or _STANDARD_AGENT in agent or not knows_ours:
        yield "WWW-Authenticate"


def dialect_of(scope: Scope) -> media_types.Dialect:
    """Return the dialect in which a request is answered."""
    headers = Headers(scope=scope)
    return media_types.for_error(headers.getlist("accept"), headers.get("content-type"))
