"""Mapping of gRPC statuses and reasons to HTTP statuses, and the rendering of every error answer."""

import logging
from collections.abc import Iterator, Mapping
from enum import StrEnum

import grpc
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope
from towpath.locks.v1 import lock_service_pb2

from services.common.errors import Reason, ServiceError
from services.common.observability import request_id
from services.common.observability.logs import get_logger
from services.facade.auth.refusal_reports import REFUSED, Refusal, RefusalReports, bounded
from services.facade.locks import BatchReply, failure_body, lock_body
from services.facade.web import media_types, schemas
from services.facade.web.error_reasons import ClientDisconnected, HttpReason
from services.facade.web.request_log import operation_of
from services.facade.web.responses import json_response


class Area(StrEnum):
    """The part of the interface that a request addresses; some errors have a different status in it."""

    BATCH = "batch"
    LOCKS = "locks"
    ACTIONS = "actions"
    ELSEWHERE = "elsewhere"


_HTTP: dict[tuple[Area | None, str | grpc.StatusCode], int] = {
    # By reason, where the reason says more than the gRPC status.
    (None, HttpReason.BATCH_REFUSED): 409,
    (None, HttpReason.CLIENT_SILENT): 408,
    (None, HttpReason.CLIENT_SLOW): 408,
    (None, HttpReason.CROSS_SITE): 403,
    (None, HttpReason.INSECURE): 403,
    (None, HttpReason.SIGN_IN_REFUSED): 403,
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
    (None, Reason.QUOTA_EXCEEDED): 507,
    (None, Reason.BANDWIDTH_EXCEEDED): 509,
    (None, Reason.OBJECT_REMOVED): 410,
    (None, Reason.OBJECT_DAMAGED): 502,
    (None, Reason.COLLECTION_RUNNING): 409,
    (None, Reason.OFFSET_MISMATCH): 409,
    (None, Reason.UPLOAD_IN_PROGRESS): 423,
    (None, Reason.TOO_MUCH_GARBAGE): 409,
    (None, Reason.LOCK_NOT_FOUND): 404,
    (None, Reason.UNSUPPORTED_TOKEN_TYPE): 400,
    (None, Reason.SIGN_IN_UNSUPPORTED): 502,
    # Clients retry 429 and 507. Of the statuses that the protocol has for locks, 403 is an error that a user can fix.
    (None, Reason.TOO_MANY_LOCKS): 403,
    (None, Reason.TOO_MANY_TOKENS): 403,
    # By reason only: UNAUTHENTICATED without a reason is a wrong secret between services, not the client's fault.
    (None, Reason.BAD_CREDENTIALS): 401,
    (None, Reason.CREDENTIALS_REQUIRED): 401,
    # The inner service was stopped during the call.
    (None, grpc.StatusCode.CANCELLED.name): 503,
    # From 404 or 501 on `locks/verify`, a client concludes permanently that there is no locking (client-8).
    (Area.LOCKS, grpc.StatusCode.NOT_FOUND): 403,
    (Area.LOCKS, grpc.StatusCode.UNIMPLEMENTED): 500,
    # A client takes 422 on an upload for success (client-1), and repeats a 401 forever (client-5).
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
# Of 501, 507 and 509 the line of the request tells enough: the client asked for too much.
_LEVELS = {500: logging.ERROR, 502: logging.ERROR, 503: logging.WARNING, 504: logging.WARNING}
# The status that nginx logs for a client that has disconnected; nobody receives it.
_CLIENT_CLOSED_REQUEST = 499

# The messages of internal failures, so that the original messages reveal nothing to clients.
_TOLD = {
    500: "internal error",
    501: "this is not implemented",
    502: "an inner service gave an answer that is not whole",
    503: "the service is not available for the moment",
    504: "an inner service did not answer in time",
}
_BROWSERS = "Mozilla/"
_RETRY_SECONDS = {423: "1", 429: "10", 503: "5"}

_log = get_logger(__name__)


def http_status(error: ServiceError, area: Area) -> int:
    """Return the HTTP status of an error: by its reason, else by its gRPC status; `area` takes precedence in both."""
    keys = ((area, error.reason), (None, error.reason), (area, error.status), (None, error.status))
    return next((_HTTP[key] for key in keys if key in _HTTP), _OTHERWISE)


class ErrorRenderer:
    """Renders the answer to an error, in the caller's dialect.

    `told` has, by HTTP status, the messages that stand for those of internal failures.
    """

    def __init__(
        self,
        *,
        realm: str,
        documentation_url: str | None,
        refusals: RefusalReports | None = None,
        told: Mapping[int, str] = _TOLD,
    ) -> None:
        self._challenge = f'Basic realm="{realm}"'
        self._told = told
        self._documentation_url = documentation_url
        self._refusals = refusals

    def answer(self, error: Exception, scope: Scope) -> Response:
        """Return the answer to a request that failed; log a `ServiceError` that is not the client's fault.

        What another service is at fault for, or its absence for a moment, is a warning. The caller logs any other
        error, or raises it again.
        """
        if isinstance(error, ClientDisconnected):
            return Response(status_code=_CLIENT_CLOSED_REQUEST)
        if not isinstance(error, ServiceError):
            return self.render(ServiceError(Reason.INTERNAL, "internal error"), scope)
        level = _LEVELS.get(http_status(error, _area_of(scope)))
        if level is not None:
            _log.log(level, "request failed", status=error.status.name, reason=error.reason, message=error.message)
        return self.render(error, scope)

    def tell(self, error: ServiceError, scope: Scope) -> tuple[int, str]:
        """Return the status of an error and the message for the client, and report a refusal to the lock service."""
        status = http_status(error, _area_of(scope))
        message = error.message if error.reason == Reason.OBJECT_DAMAGED else self._told.get(status, error.message)
        if status >= _OTHERWISE:
            message = f"{message} (request id {request_id.current()})"
        if status in REFUSED and self._refusals is not None:
            self._refusals.add(_refusal(error, scope))
        return status, message

    def render(self, error: ServiceError, scope: Scope) -> Response:
        """Return the answer: the Error body; challenges on 401; Retry-After on 423, 429, 503, 509; Allow on 405.

        The error's metadata `retry_after` (seconds), `allow`, `size` and `offset` go into headers. The message of an
        internal failure reveals nothing internal; the message of a 5xx names the request id, because clients show
        nothing else.
        """
        status, message = self.tell(error, scope)
        standing = error.detail if isinstance(error.detail, lock_service_pb2.Lock) else None
        failures = error.detail.failures if isinstance(error.detail, BatchReply) else ()
        body = schemas.Error(
            message=message,
            request_id=request_id.current(),
            documentation_url=self._documentation_url,
            lock=_lock(standing) if standing is not None else None,
            locks=[_lock(failure.lock) for failure in failures if failure.HasField("lock")] or None,
            failures=[schemas.LockPathFailure.model_validate(failure_body(failure)) for failure in failures] or None,
        )
        response = json_response(body, dialect_of(scope), status=status)
        if status == 401:
            for name in _challenges(Headers(scope=scope)):
                response.headers[name] = self._challenge
        if status in _RETRY_SECONDS:
            response.headers["Retry-After"] = error.metadata.get("retry_after", _RETRY_SECONDS[status])
        if status == 509 and "retry_after" in error.metadata:
            response.headers["Retry-After"] = error.metadata["retry_after"]
        if status == 405:
            response.headers["Allow"] = error.metadata["allow"]
        if status == 416 and "size" in error.metadata:
            response.headers["Content-Range"] = f"bytes */{error.metadata['size']}"
        if status == 409 and "offset" in error.metadata:
            response.headers["Upload-Offset"] = error.metadata["offset"]
        return response


def _refusal(error: ServiceError, scope: Scope) -> Refusal:
    state = scope.get("state", {})
    fields = state.get("log", {})
    return Refusal(
        request_id=request_id.current(),
        reason=error.reason,
        message=bounded(error.message),
        user_name=fields.get("user", ""),
        repository=bounded(fields.get("repository", "")),
        operation=operation_of(scope),
        token_id=state.get("token_id", 0),
    )


def _lock(lock: lock_service_pb2.Lock) -> schemas.Lock:
    return schemas.Lock.model_validate(lock_body(lock))


def _area_of(scope: Scope) -> Area:
    area: Area = scope.get("state", {}).get("area", Area.ELSEWHERE)
    return area


def _challenges(headers: Headers) -> Iterator[str]:
    """Yield the headers in which a 401 names the scheme and the realm.

    Libraries of HTTP know the standard header alone, but it makes a browser ask for a password.
    """
    yield from (spoken.challenge for spoken in media_types.DIALECTS)
    # Whatever Accept names: a page of another site could make the browser keep a password, and use it.
    if not headers.get("user-agent", "").startswith(_BROWSERS):
        yield "WWW-Authenticate"


def dialect_of(scope: Scope) -> media_types.Dialect:
    """Return the dialect of an error answer to a request, even where Accept excludes both dialects."""
    headers = Headers(scope=scope)
    return media_types.for_error(headers.getlist("accept"), headers.get("content-type"))
