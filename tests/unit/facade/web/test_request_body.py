"""Bodies on their way in."""

import asyncio
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import inf
from types import SimpleNamespace
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import model_validator
from starlette.datastructures import Headers
from starlette.types import Message, Receive

from services.common.errors import DeadlineExceeded, InvalidArgument, Reason, ResourceExhausted, ServiceError
from services.facade.web import request_body
from services.facade.web.error_reasons import ClientDisconnected, HttpReason
from services.facade.web.schemas import BatchRequest, CreateLockRequest, DeleteLockRequest, VerifyLocksRequest
from tests.support.loop import never, settled


def _sending(pieces: Iterable[bytes], *, end: bool = True) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if end:
        messages.append({"type": "http.request", "body": b"", "more_body": False})
    waiting = iter(messages)

    async def receive() -> Message:
        for message in waiting:
            return message
        return await never()

    return receive


async def _read(receive: Receive, *, max_bytes: int = 10, length: int = 0) -> bytes:
    headers = Headers({"content-length": str(length)} if length else {})
    return await request_body.read(headers, receive, max_bytes=max_bytes, seconds=0.05)


async def test_a_body_is_read_to_its_end() -> None:
    """However it is cut."""
    assert await _read(_sending([b"ab", b"", b"cd"])) == b"abcd"


async def test_a_body_is_bounded() -> None:
    """By its announced length, before it is read, and by what comes."""
    with pytest.raises(ResourceExhausted, match="at most 10"):
        await _read(_sending([], end=False), length=11)
    with pytest.raises(ResourceExhausted):
        await _read(_sending([b"123456", b"789012"], end=False))
    assert len(await _read(_sending([b"1234567890"]))) == 10


async def test_a_body_has_a_time_in_which_it_must_be_there() -> None:
    """Silence or single bytes: it is told so (408)."""
    with pytest.raises(DeadlineExceeded) as caught:
        await _read(_sending([b"ab"], end=False))
    assert caught.value.reason == HttpReason.CLIENT_SLOW
    with pytest.raises(DeadlineExceeded):
        await _read(_dripping(b"a"), max_bytes=10**9)


class _Clock:
    """The clock of the module; the test puts it on."""

    now = 0.0

    def time(self) -> float:
        """Return the seconds so far."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    """The clock by which a rate is told."""
    clock = _Clock()
    known = SimpleNamespace(timeout=asyncio.timeout, get_running_loop=lambda: clock)
    monkeypatch.setattr(request_body, "asyncio", known)
    return clock


def _dripping(piece: bytes, *, pause: float = 0, count: float = inf, clock: _Clock | None = None) -> Receive:
    left = count

    async def receive() -> Message:
        nonlocal left
        await settled()
        if clock is not None:
            clock.now += pause
        left -= 1
        return {"type": "http.request", "body": piece, "more_body": left > 0}

    return receive


async def test_a_silent_upload_is_not_waited_for() -> None:
    """It is told so: 408."""
    with pytest.raises(DeadlineExceeded) as caught:
        async for _ in request_body.chunks(_sending([b"ab"], end=False), 0.05, 1):
            pass
    assert caught.value.reason == HttpReason.CLIENT_SILENT


async def test_an_upload_has_a_least_rate(clock: _Clock) -> None:
    """An upload must keep a least rate even if it began fast, because early bytes are no credit for days."""
    for first in (0, 1):
        receive = _dripping(b"a", pause=0.02, clock=clock)
        fast = iter([{"type": "http.request", "body": bytes(10**6), "more_body": True}] * first)

        async def begun(receive: Receive = receive, fast: Iterator[Message] = fast) -> Message:
            return next(fast, None) or await receive()

        with pytest.raises(DeadlineExceeded, match="at least 1000 bytes a second") as caught:
            async for _ in request_body.chunks(begun, 0.3, 1_000):
                pass
        assert caught.value.reason == HttpReason.CLIENT_SLOW


async def test_an_upload_that_is_fast_enough_goes_on(clock: _Clock) -> None:
    """For longer than the time over which its rate is looked at."""
    receive = _dripping(bytes(1_000), pause=0.02, count=60, clock=clock)
    assert len([data async for data in request_body.chunks(receive, 0.5, 100)]) == 60


async def test_an_upload_is_not_slow_because_we_are(clock: _Clock) -> None:
    """Storage that takes its time is no fault of the client."""
    count = 0
    async for _ in request_body.chunks(_sending([b"a"] * 10), 0.05, 1_000):
        clock.now += 0.02
        count += 1
    assert count == 10


async def test_a_client_that_goes_away_is_no_error_of_ours() -> None:
    """There is nobody to answer."""

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientDisconnected):
        await _read(receive)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b" ",
        b"nul",
        b"{'a': 1}",
        b'{"a": []',
        b'{"a": 01}',
        b'{"a": "\xff"}',
        b"\xff\xfe{\x00}\x00",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'"\\ud800"',
        b"[" * 100_000,
        b'{"a":' * 40_000,
        b'{"a": 1' + b"0" * 5_000 + b"}",
        b"\xef\xbb\xbf{}",
        b"{} {}",
        b"{}{}",
    ],
    ids=range(19),
)
def test_what_is_no_json_is_malformed(data: bytes) -> None:
    """400, never 500: lone surrogates, huge numbers, deep nesting."""
    with pytest.raises(InvalidArgument) as caught:
        request_body.parse(data)
    assert caught.value.reason == HttpReason.MALFORMED_JSON


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: json.dumps(text).encode()))
def test_no_bytes_are_too_strange(data: bytes) -> None:
    """They are JSON of a shape, or an error that the client is told of."""
    for model in (BatchRequest, CreateLockRequest, VerifyLocksRequest, DeleteLockRequest):
        with suppress(ServiceError):
            request_body.validate_body(model, request_body.parse(data))


async def test_a_large_body_is_looked_at_beside_the_event_loop() -> None:
    """All of it: JSON, its lengths and its shape, so that nobody else waits for any of these."""
    threads: list[threading.Thread] = []

    def check(value: object) -> None:
        assert isinstance(value, dict)
        threads.append(threading.current_thread())

    class Watched(CreateLockRequest):
        @model_validator(mode="after")
        def _note(self) -> Self:
            threads.append(threading.current_thread())
            return self

    for length, is_beside in ((100, False), (100_000, True)):
        asked = await request_body.decoded(Watched, json.dumps({"path": "x" * length}).encode(), check)
        assert len(asked.path) == length
        assert [thread is not threading.current_thread() for thread in threads] == [is_beside] * 2
        threads.clear()


async def test_what_is_checked_before_the_shape_is_told_first() -> None:
    """The check is there to keep the model from bodies that take it long."""

    def check(_value: object) -> None:
        raise ResourceExhausted(Reason.BATCH_TOO_LARGE, "too many")

    with pytest.raises(ResourceExhausted, match="too many"):
        await request_body.decoded(CreateLockRequest, b"[]", check)
    with pytest.raises(InvalidArgument, match="expected JSON"):
        await request_body.decoded(CreateLockRequest, b"[", check)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "body: expected an object"),
        ("x", "body: expected an object"),
        (5, "body: expected an object"),
        (None, "body: expected an object"),
        (True, "body: expected an object"),
        ({}, "operation: field required"),
        ({"objects": []}, "operation: field required"),
        *(
            ({"operation": value, "objects": []}, "operation: should be 'download' or 'upload'")
            for value in ("verify", "UPLOAD", "", "download ", 5, True, ["upload"], {"name": "upload"}, None)
        ),
        ({"operation": "upload"}, "objects: field required"),
        *(
            ({"operation": "upload", "objects": value}, "objects: should be a valid list")
            for value in (None, "x", 5, {"oid": "0" * 64, "size": 1})
        ),
        *(
            ({"operation": "upload", "objects": [{}, value]}, "objects.1: expected an object")
            for value in (5, None, "0" * 64, [1])
        ),
        ({"operation": "upload", "objects": [], "ref": 5}, "ref: expected an object"),
        *(
            ({"operation": "upload", "objects": [], "transfers": value}, "transfers: should be a valid list")
            for value in ("basic", 5, {"basic": True})
        ),
        ({"operation": "upload", "objects": [], "transfers": [5]}, "transfers.0: should be a valid string"),
        ({"operation": "upload", "objects": [], "transfers": ["basic", None]}, "transfers.1: should be a valid string"),
    ],
)
def test_the_wrong_shape_is_told_with_the_field(value: object, told: str) -> None:
    """A client learns the wrong field by the name that it sent, and not by the names of our classes."""
    with pytest.raises(InvalidArgument) as caught:
        request_body.validate_body(BatchRequest, value)
    assert caught.value.message == told


@pytest.mark.parametrize("ref", [None, {}, {"name": None}, {"name": ""}])
def test_a_ref_without_a_name_is_no_ref(ref: object) -> None:
    """None of these is an error (client-11, trap-26)."""
    assert request_body.validate_body(VerifyLocksRequest, {"ref": ref}).ref_name == ""


@pytest.mark.parametrize("name", ["HEAD", "main:foo", "refs/heads/x", "\0"])
def test_any_name_of_a_ref_is_taken(name: str) -> None:
    """It is matched against grants, and grants nothing where nothing matches."""
    assert request_body.validate_body(VerifyLocksRequest, {"ref": {"name": name}}).ref_name == name


def test_unknown_fields_are_ignored() -> None:
    """Later clients send more (protocol: "Versioning")."""
    sent = {"path": "a", "owner": {"name": "bob"}, "x": None, "ref": {"name": "refs/heads/main", "x": 1}}
    asked = request_body.validate_body(CreateLockRequest, sent)
    assert (asked.path, asked.ref_name) == ("a", "refs/heads/main")


@pytest.mark.parametrize("force", ["true", 1, 0, [], {}])
def test_force_is_a_boolean(force: object) -> None:
    """Nothing else is taken for one."""
    with pytest.raises(InvalidArgument, match="force"):
        request_body.validate_body(DeleteLockRequest, {"force": force})


@pytest.mark.parametrize(
    ("headers", "good"),
    [
        ({}, True),
        ({"content-length": "0"}, True),
        ({"content-length": "5"}, False),
        ({"transfer-encoding": "chunked"}, False),
        ({"content-type": "text/plain"}, False),
        ({"content-length": "5", "content-type": "application/vnd.git-lfs+json; charset=utf-8"}, True),
        ({"content-length": "5", "content-type": "application/json"}, False),
    ],
)
def test_a_body_needs_a_type_and_no_body_needs_none(headers: dict[str, str], good: bool) -> None:
    """Else 415."""
    if good:
        request_body.check_content_type(Headers(headers))
        return
    with pytest.raises(InvalidArgument) as caught:
        request_body.check_content_type(Headers(headers))
    assert caught.value.reason == HttpReason.UNSUPPORTED_MEDIA_TYPE
