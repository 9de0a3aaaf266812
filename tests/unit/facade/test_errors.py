"""The one table from status and reason to HTTP, and the one renderer."""

import json
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from starlette.responses import Response
from structlog.testing import capture_logs
from towpath.locks.v1 import lock_service_pb2

from services.common.errors import (
    Aborted,
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    Reason,
    ResourceExhausted,
    ServiceError,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from services.common.observability import request_id
from services.facade.errors import Area, ErrorRenderer, http_status
from services.facade.web.error_reasons import ClientDisconnected, HttpReason, invalid_reply
from services.facade.web.media_types import DIALECTS, GIT_LFS, Dialect

ROWS: list[tuple[ServiceError, dict[Area, int]]] = [
    (InvalidArgument(Reason.INVALID_FIELD, ""), {Area.ELSEWHERE: 422, Area.ACTIONS: 400}),
    (InvalidArgument(Reason.HASH_MISMATCH, ""), {Area.ACTIONS: 400}),
    (InvalidArgument(Reason.MALFORMED_STREAM, ""), {Area.ACTIONS: 400}),
    (InvalidArgument(HttpReason.MALFORMED_JSON, ""), dict.fromkeys(Area, 400)),
    (InvalidArgument(HttpReason.INVALID_HOST, ""), dict.fromkeys(Area, 400)),
    (InvalidArgument(HttpReason.NOT_ACCEPTABLE, ""), dict.fromkeys(Area, 406)),
    (InvalidArgument(HttpReason.UNSUPPORTED_MEDIA_TYPE, ""), dict.fromkeys(Area, 415)),
    (Unauthenticated(Reason.BAD_CREDENTIALS, ""), {**dict.fromkeys(Area, 401), Area.ACTIONS: 403}),
    (Unauthenticated(Reason.CREDENTIALS_REQUIRED, ""), {**dict.fromkeys(Area, 401), Area.ACTIONS: 403}),
    (Unauthenticated("UNAUTHENTICATED", "the secret between services"), dict.fromkeys(Area, 500)),
    (PermissionDenied(Reason.ACCESS_DENIED, ""), dict.fromkeys(Area, 403)),
    (NotFound(Reason.REPOSITORY_NOT_FOUND, ""), {Area.BATCH: 404, Area.LOCKS: 403}),
    (NotFound(Reason.USER_NOT_FOUND, ""), {Area.LOCKS: 403}),
    (NotFound(Reason.LOCK_NOT_FOUND, ""), {Area.LOCKS: 404}),
    (NotFound(Reason.OBJECT_NOT_FOUND, ""), {Area.ACTIONS: 404}),
    (NotFound(HttpReason.ROUTE_NOT_FOUND, ""), {Area.ELSEWHERE: 404}),
    (ServiceError(HttpReason.METHOD_NOT_ALLOWED, "", allow="GET"), dict.fromkeys(Area, 405)),
    (DeadlineExceeded(HttpReason.CLIENT_SILENT, ""), dict.fromkeys(Area, 408)),
    (AlreadyExists(Reason.PATH_LOCKED, ""), {Area.LOCKS: 409}),
    (FailedPrecondition(Reason.OBJECT_REMOVED, ""), {Area.ACTIONS: 410}),
    (FailedPrecondition(Reason.SIGN_IN_UNSUPPORTED, ""), dict.fromkeys(Area, 502)),
    (FailedPrecondition(Reason.USER_HOLDS_LOCKS, ""), dict.fromkeys(Area, 500)),
    (OutOfRange(Reason.OFFSET_OUT_OF_RANGE, "", size="5"), dict.fromkeys(Area, 416)),
    (ResourceExhausted(Reason.BATCH_TOO_LARGE, ""), dict.fromkeys(Area, 413)),
    (ResourceExhausted(HttpReason.BODY_TOO_LARGE, ""), dict.fromkeys(Area, 413)),
    (ResourceExhausted(Reason.RATE_LIMITED, ""), dict.fromkeys(Area, 429)),
    (ResourceExhausted(Reason.STORAGE_FULL, ""), dict.fromkeys(Area, 507)),
    (ResourceExhausted(Reason.BANDWIDTH_EXCEEDED, ""), dict.fromkeys(Area, 509)),
    (ResourceExhausted(Reason.TOO_MANY_LOCKS, ""), {Area.LOCKS: 403}),
    (ResourceExhausted(Reason.TOO_MANY_TOKENS, ""), {Area.ELSEWHERE: 403}),
    (ResourceExhausted("RESOURCE_EXHAUSTED", "grpc's own"), dict.fromkeys(Area, 500)),
    (Unimplemented(Reason.UNIMPLEMENTED, ""), {Area.BATCH: 501, Area.ACTIONS: 501, Area.LOCKS: 500}),
    (invalid_reply("Call", ""), dict.fromkeys(Area, 502)),
    (Unavailable(Reason.UNAVAILABLE, ""), dict.fromkeys(Area, 503)),
    (Aborted("ABORTED", ""), dict.fromkeys(Area, 503)),
    (ServiceError(grpc.StatusCode.CANCELLED.name, ""), dict.fromkeys(Area, 503)),
    (DeadlineExceeded(Reason.DEADLINE_EXCEEDED, ""), dict.fromkeys(Area, 504)),
    (ServiceError(Reason.INTERNAL, ""), dict.fromkeys(Area, 500)),
    (ServiceError("DATA_LOSS", ""), dict.fromkeys(Area, 500)),
]


def _render(
    error: ServiceError,
    *,
    area: Area = Area.BATCH,
    dialect: Dialect = GIT_LFS,
    documentation_url: str | None = None,
) -> tuple[Response, dict[str, Any]]:
    request_id.adopt("request-1")
    renderer = ErrorRenderer(realm="Towpath", documentation_url=documentation_url)
    headers = [(b"accept", dialect.media_type.encode())]
    response = renderer.render(error, {"type": "http", "headers": headers, "state": {"area": area}})
    return response, json.loads(bytes(response.body))


@pytest.mark.parametrize(("error", "statuses"), ROWS, ids=lambda value: getattr(value, "reason", None))
def test_each_row_of_the_table(error: ServiceError, statuses: dict[Area, int]) -> None:
    """A reason, or else a status, has one HTTP status in each area."""
    assert {area: http_status(error, area) for area in statuses} == statuses


@pytest.mark.parametrize(("error", "_statuses"), ROWS, ids=lambda value: getattr(value, "reason", None))
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.media_type)
def test_every_error_has_the_error_body_of_the_dialect(
    error: ServiceError, _statuses: dict[Area, int], dialect: Dialect
) -> None:
    """Message and request id, no null, no `objects` (protocol: "Error body")."""
    response, body = _render(error, dialect=dialect)
    assert response.headers["content-type"] == dialect.media_type
    assert set(body) == {"message", "request_id"}
    assert body["request_id"] == "request-1"


@pytest.mark.parametrize(
    ("error", "levels"),
    [
        (ServiceError(Reason.INTERNAL, ""), ["error"]),
        (invalid_reply("Call", ""), ["error"]),
        (Unavailable(Reason.UNAVAILABLE, ""), ["warning"]),
        (ServiceError(grpc.StatusCode.CANCELLED.name, ""), ["warning"]),
        (ResourceExhausted(Reason.STORAGE_FULL, ""), []),
        (ResourceExhausted(Reason.BANDWIDTH_EXCEEDED, ""), []),
        (Unimplemented(Reason.UNIMPLEMENTED, ""), []),
        (ClientDisconnected(), []),
    ],
    ids=str,
)
def test_what_is_logged(error: Exception, levels: list[str]) -> None:
    """A client that leaves, or asks for too much, is no fault of ours; a service that restarts is no error."""
    renderer = ErrorRenderer(realm="Towpath", documentation_url=None)
    with capture_logs() as lines:
        renderer.answer(error, {"type": "http", "headers": [], "state": {"area": Area.BATCH}})
    assert [line["log_level"] for line in lines] == levels


def test_no_upload_is_answered_401_or_422() -> None:
    """A client takes 422 there for success, and repeats a 401 for ever (client-1, client-5)."""
    assert not {http_status(error, Area.ACTIONS) for error, _ in ROWS} & {401, 422}


def test_no_lock_call_but_for_an_unknown_lock_is_answered_404_or_501() -> None:
    """A client would take it for "no locking here", for good (client-8)."""
    found = {error.reason for error, _ in ROWS if http_status(error, Area.LOCKS) in (404, 501)}
    assert found == {Reason.LOCK_NOT_FOUND}


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (ResourceExhausted(Reason.RATE_LIMITED, ""), "10"),
        (ResourceExhausted(Reason.RATE_LIMITED, "", retry_after="7"), "7"),
        (Unavailable(Reason.UNAVAILABLE, ""), "5"),
    ],
)
def test_a_429_and_a_503_say_when_to_come_again(error: ServiceError, seconds: str) -> None:
    """A 429 without it crashes older clients (client-7)."""
    assert _render(error)[0].headers["retry-after"] == seconds


def test_a_405_and_a_416_have_their_headers() -> None:
    """Allow, and the size of the object."""
    assert _render(ServiceError(HttpReason.METHOD_NOT_ALLOWED, "", allow="GET, PUT"))[0].headers["allow"] == "GET, PUT"
    beyond = OutOfRange(Reason.OFFSET_OUT_OF_RANGE, "", size="5")
    assert _render(beyond)[0].headers["content-range"] == "bytes */5"


@pytest.mark.parametrize(
    "error",
    [
        ServiceError(Reason.INTERNAL, "/secret/path"),
        Unavailable(Reason.UNAVAILABLE, "failed to connect to unix:/secret/path"),
        DeadlineExceeded(Reason.DEADLINE_EXCEEDED, "/secret/path"),
        Unimplemented(Reason.UNIMPLEMENTED, "/secret/path"),
        invalid_reply("Call", "/secret/path"),
    ],
)
def test_a_failure_inside_tells_nothing_of_the_inside(error: ServiceError) -> None:
    """An internal failure shows the request id alone, because clients show their users only the message."""
    _, body = _render(error)
    assert "secret" not in json.dumps(body)
    assert "request-1" in body["message"]


def test_full_storage_is_told_with_the_request_id() -> None:
    """Its own words are for the user."""
    _, body = _render(ResourceExhausted(Reason.STORAGE_FULL, "the objects do not fit"))
    assert body["message"] == "the objects do not fit (request id request-1)"


def test_the_documentation_is_named_where_it_is_configured() -> None:
    """In every error body."""
    _, body = _render(NotFound(Reason.LOCK_NOT_FOUND, ""), documentation_url="https://help.example")
    assert body["documentation_url"] == "https://help.example"


def test_a_conflict_carries_the_standing_lock() -> None:
    """With its holder (protocol: "Create lock", 409; trap-17)."""
    standing = lock_service_pb2.Lock(id="7", path="a", locked_at=Timestamp(seconds=0), owner_name="bob")
    response, body = _render(AlreadyExists(Reason.PATH_LOCKED, "locked", detail=standing), area=Area.LOCKS)
    assert response.status_code == 409
    assert body["lock"] == {"id": "7", "path": "a", "locked_at": "1970-01-01T00:00:00Z", "owner": {"name": "bob"}}
