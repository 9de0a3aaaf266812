"""Checks that hold for every answer of the service, whatever the request."""

from collections.abc import Iterator
from typing import Any

import httpx

from services.conformance import strict_json
from services.conformance.dialects import Dialect
from services.conformance.strict_json import TIMESTAMP

ERROR_KEYS = {"message", "request_id", "documentation_url"}
_TIMESTAMPS = ("locked_at", "expires_at")


def parse(content: bytes) -> Any:  # noqa: ANN401 - whatever JSON was answered
    """Parse JSON, refusing what the client chokes on: nulls, floats, repeated keys, loose timestamps."""
    body = strict_json.parse(content)
    for key, value in _values("", body):
        assert value is not None, f"{key or 'the body'} is null"
        assert not isinstance(value, float), f"{key} is a number that is no integer: {value}"
        if key in _TIMESTAMPS:
            assert isinstance(value, str)
            assert TIMESTAMP.fullmatch(value), f"{key}: {value!r}"
    return body


def _values(key: str, value: object) -> Iterator[tuple[str, object]]:
    yield key, value
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _values(name, member)
    elif isinstance(value, list):
        for member in value:
            yield from _values(key, member)


def check_error(answer: httpx.Response) -> None:
    """Check an Error body (protocol: Error body)."""
    body = parse(answer.content)
    assert isinstance(body, dict)
    lock = {"lock", "locks", "failures"} if answer.status_code == 409 else set()
    assert {"message", "request_id"} <= set(body), body
    assert set(body) <= ERROR_KEYS | lock, body
    assert isinstance(body["message"], str)
    assert body["message"]
    assert body["request_id"] == answer.headers["x-request-id"]
    if answer.status_code >= 500:
        assert body["request_id"] in body["message"], "a 5xx names the request id, since clients show only the message"


def check(answer: httpx.Response, dialect: Dialect) -> httpx.Response:
    """Check what every answer has: a request id, and, where it has JSON, the dialect's media type and strict JSON."""
    assert answer.headers.get("x-request-id"), answer.headers
    assert "location" not in answer.headers, "client-25: clients follow redirects without end"
    if answer.status_code == 429:
        assert int(answer.headers["retry-after"]) >= 1, "client-7: a 429 without Retry-After kills clients"
    if answer.request.method == "HEAD":
        assert answer.content == b""
        return answer
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == dialect.media_type
        check_error(answer)
    elif answer.headers.get("content-type") == dialect.media_type:
        assert "message" not in parse(answer.content), "client-20: a message in a success is taken for a failure"
    return answer
