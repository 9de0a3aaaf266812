"""Clients that send too much, too little, or nothing that is HTTP."""

import asyncio
import gc
import json
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import NamedTuple

import pytest
from prometheus_client import REGISTRY
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from services.facade.server.connections import ConnectionLimits, Connections
from services.facade.server.http_server import listening_socket, serve
from tests.service.facade import raw
from tests.service.facade.conftest import Inner, Place, new_place
from tests.support import streams
from tests.support.facade import RunningFacade
from tests.support.http import MEDIA_TYPE, Action, Client, content
from tests.support.waiting import LONG_SECONDS, STEP_SECONDS, until

MIB = 1024**2


async def _is_idle(client: Client, facade: RunningFacade) -> bool:
    """Tell whether a facade that serves one request at once serves none."""
    return (await client.http.get(f"{facade.origin}/x")).status_code != 429


async def _is_busy(client: Client, facade: RunningFacade) -> bool:
    return not await _is_idle(client, facade)


@pytest.mark.parametrize("path", ["objects/batch", "locks", "locks/verify", "locks/1/unlock"])
@pytest.mark.parametrize("is_known", [True, False])
async def test_nobody_in_particular_is_refused_before_the_body(place: Place, path: str, *, is_known: bool) -> None:
    """A caller without an account must not make the service read a body; an unknown repository answers alike."""
    action = Action(f"{place.base_url if is_known else place.facade.origin + '/no/such'}/{path}", {})
    async with raw.connected(place.facade) as (reader, writer):
        writer.write(raw.head(action, "POST", Content_Type=MEDIA_TYPE, Content_Length=str(10 * MIB)) + b"{")
        status, headers, _ = await raw.answer(reader)
        assert (status, headers["connection"]) == (401, "close")
        assert "blob-authenticate" in headers
        writer.write(b" " * (10 * MIB))
        async with asyncio.timeout(STEP_SECONDS):
            assert await reader.read() == b""


async def test_nobody_in_particular_locks_nothing_that_all_may_read(place: Place) -> None:
    """A public repository is told before the body, too."""
    public = await new_place(place.facade, place.inner, public=True)
    action = Action(f"{public.base_url}/locks", {})
    async with raw.connected(place.facade) as (reader, writer):
        writer.write(raw.head(action, "POST", Content_Type=MEDIA_TYPE, Content_Length="1000"))
        assert (await raw.answer(reader))[0] == 401


async def test_a_client_that_asks_before_it_sends_is_told_either_way(place: Place) -> None:
    """100 Continue, or the refusal at once, and then the end."""
    data = content("expect", 100_000)
    action = await place.action("upload", data)
    async with raw.connected(place.facade) as (reader, writer):
        writer.write(raw.head(action, "PUT", Content_Length="100000", Expect="100-continue"))
        assert (await raw.answer(reader))[0] == 100
        writer.write(data)
        assert (await raw.answer(reader))[0] == 200
    async with raw.connected(place.facade) as (reader, writer):
        writer.write(raw.head(Action(action.href, {}), "PUT", Content_Length="100000", Expect="100-continue"))
        status, headers, _ = await raw.answer(reader)
        assert (status, headers["connection"]) == (403, "close")
        async with asyncio.timeout(STEP_SECONDS):
            assert await reader.read() == b""


async def _drip(writer: asyncio.StreamWriter) -> None:
    """Send a byte now and then, so that there is no silence."""
    while True:
        writer.write(b" ")
        await asyncio.sleep(0.05)


async def _answer_to_drops(facade: RunningFacade, head: bytes) -> tuple[int, dict[str, str], bytes]:
    """Return what a client is told that is never silent, and never ready."""
    async with raw.connected(facade) as (reader, writer):
        writer.write(head)
        dripping = asyncio.create_task(_drip(writer))
        try:
            return await raw.answer(reader)
        finally:
            dripping.cancel()


async def test_a_client_that_never_gets_ready_is_told_408(place: Place) -> None:
    """It sends a byte now and then; nothing is kept of its upload."""
    inner = place.inner
    before = inner.storage.files()
    async with inner.running_facade(body_idle_seconds=0.5, json_body_seconds=0.5) as facade:
        batch = raw.head(place.asked("objects/batch"), "POST", Content_Length="1000")
        upload = raw.head(await place.action("upload", content("drops", 100_000)), "PUT", Content_Length="100000")
        for head in (batch, upload):
            status, headers, body = await _answer_to_drops(facade, head)
            assert (status, headers["connection"]) == (408, "close")
            assert json.loads(body)["message"].startswith("body: expected ")
    await until(lambda: inner.storage.files() == before)


async def test_a_json_body_that_is_waited_for_takes_no_place(place: Place) -> None:
    """A slow sender must keep nobody out: its request is served, or told to retry, once the body is there."""
    inner = place.inner
    body = json.dumps({"operation": "download", "objects": []}).encode()
    data = content("takes the place", 1_000)
    upload = await place.action("upload", data)
    async with (
        inner.running_facade(requests_in_flight=1) as facade,
        Client(f"{facade.origin}/{place.name}", "alice", inner.tokens["alice"]) as alice,
        raw.connected(facade) as (reader, writer),
    ):
        head = raw.head(place.asked("objects/batch"), "POST", Content_Length=str(len(body)), Expect="100-continue")
        for is_alone in (True, False):
            writer.write(head)
            assert (await raw.answer(reader))[0] == 100
            writer.write(body[:10])
            assert (await alice.http.get(f"{facade.origin}/x")).status_code == 404
            if is_alone:
                writer.write(body[10:])
                assert (await raw.answer(reader))[0] == 200
                continue
            async with raw.connected(facade) as (_, uploading):
                uploading.write(raw.head(upload, "PUT", Content_Length=str(len(data))))
                await until(lambda: _is_busy(alice, facade), "the upload has begun")
                writer.write(body[10:])
                status, headers, _ = await raw.answer(reader)
                assert (status, headers["retry-after"]) == (429, "1")


async def test_a_refused_body_that_is_drained_takes_no_place(place: Place) -> None:
    """It is read on so that the client can read its answer, and needs nothing else of us."""
    inner = place.inner
    async with (
        inner.running_facade(requests_in_flight=1) as facade,
        place.client() as alice,
        raw.connected(facade) as (reader, writer),
    ):
        nobody = Action(f"{facade.origin}/{place.name}/objects/batch", {"Content-Type": MEDIA_TYPE})
        writer.write(raw.head(nobody, "POST", Content_Length=str(10 * MIB)) + b"{")
        assert (await raw.answer(reader))[0] == 401
        assert await _is_idle(alice, facade)


async def test_a_client_that_reads_nothing_is_cut_off(place: Place) -> None:
    """It gets no more than fits on the way, and never something that looks whole."""
    data = content("unread", 20 * MIB)
    action = await place.held(data)
    async with (
        place.inner.running_facade(body_idle_seconds=0.5, requests_in_flight=1) as facade,
        place.client() as alice,
        raw.downloading(facade, action) as reader,
    ):
        await until(lambda: _is_idle(alice, facade), "the download is cut off")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(len(data))


async def test_a_client_that_goes_away_ends_its_download(place: Place) -> None:
    """Storage is not read for nobody."""
    action = await place.held(content("left", 20 * MIB))
    async with place.inner.running_facade(requests_in_flight=1) as facade, place.client() as alice:
        async with raw.downloading(facade, action):
            pass
        await until(lambda: _is_idle(alice, facade), "the download ends")


async def test_the_connection_of_a_small_refusal_stays(place: Place) -> None:
    """The first batch of every client is anonymous; the next one comes on the same connection."""
    request = (
        f"POST /{place.name}/objects/batch HTTP/1.1\r\nHost: h\r\nContent-Type: application/vnd.blob+json\r\n"
        "Content-Length: 2\r\n\r\n{}"
    ).encode()
    async with raw.connected(place.facade) as (reader, writer):
        for _ in range(3):
            writer.write(request.replace(b"{}", b"[]"))
            status, headers, _ = await raw.answer(reader)
            assert "connection" not in headers
            assert status == 401


async def test_a_stop_lets_what_runs_end(place: Place) -> None:
    """An upload that is under way is finished; then nobody listens."""
    inner = place.inner
    data = content("drained", 1_000_000)
    async with inner.running_facade(drain_seconds=LONG_SECONDS, requests_in_flight=1) as facade:
        action = await place.action("upload", data)
        async with raw.connected(facade) as (reader, writer):
            writer.write(raw.head(action, "PUT", Content_Length=str(len(data))) + data[:500_000])
            async with place.client() as alice:
                await until(lambda: _is_busy(alice, facade), "the upload has begun")
            facade.stop.set()
            await until(lambda: _refuses(facade), "nobody listens")
            writer.write(data[500_000:])
            assert (await raw.answer(reader))[0] == 200
        await asyncio.wait_for(facade.served, STEP_SECONDS)


async def _refuses(facade: RunningFacade) -> bool:
    """Tell whether a facade takes no new connection."""
    try:
        async with raw.connected(facade):
            return False
    except ConnectionError:
        return True


class _Served(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    stop: asyncio.Event


@asynccontextmanager
async def _served(app: ASGIApp, *, drain_seconds: float = 1) -> AsyncIterator[_Served]:
    """Serve an application, and open a connection to it."""
    stop, listener = asyncio.Event(), listening_socket("127.0.0.1:0")
    address = listener.getsockname()
    limits = ConnectionLimits(Connections(10, 10), head_seconds=60, head_bytes=16_384, head_fields=100, idle_seconds=60)
    serving = asyncio.create_task(serve(app, listener, stop, limits=limits, drain_seconds=drain_seconds))
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield _Served(reader, writer, stop)
    finally:
        await streams.end([writer])
        stop.set()
        await asyncio.wait_for(serving, STEP_SECONDS)


async def test_half_an_answer_is_never_sent() -> None:
    """A proxy that has a head passes it on, and can ask no other facade when the rest does not come."""
    has_body = asyncio.Event()

    async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await has_body.wait()
        await send({"type": "http.response.body", "body": b"body"})

    async with _served(answer) as served:
        for _ in range(2):
            served.writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(served.reader.read(1), 0.5)
            has_body.set()
            assert (await raw.answer(served.reader))[::2] == (200, b"body")
            has_body.clear()


async def test_a_request_whose_client_has_left_runs_to_its_end() -> None:
    """A facade that is told to stop gives it as much time as any other: it may be putting an upload away."""
    began = asyncio.Event()
    ended = asyncio.Event()
    stop = asyncio.Event()

    async def answer(_scope: Scope, receive: Receive, _send: Send) -> None:
        began.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        stop.set()
        # Longer than the facade looks on until it sees that no connection is left.
        await asyncio.sleep(0.5)
        ended.set()

    async with _served(answer, drain_seconds=STEP_SECONDS) as served:
        served.writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.wait_for(began.wait(), STEP_SECONDS)
        await streams.end([served.writer])
        await stop.wait()
        served.stop.set()
    assert ended.is_set()


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the method, the path and the body of the request."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    said = f"{scope['method']} {scope['path']} ".encode() + body
    headers = [(b"content-length", str(len(said)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": said})


@pytest.mark.parametrize("most", [1, 2, 7, 100, 100_000])
async def test_requests_that_come_together(most: int) -> None:
    """Each is answered in its turn, wherever the network cuts them, and whatever their bodies look like."""
    drawn = random.Random(most)  # noqa: S311 - only varied, and the same at each run
    sent, expected = b"", []
    for number in range(60):
        body = drawn.choice([b"", b"\r\n\r\n", b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n", b"x" * 3_000])
        head = f"POST /{number} HTTP/1.1\r\nHost: localhost\r\n".encode()
        match drawn.randrange(4):
            case 0:
                head, body = head.replace(b"POST", b"GET") + b"\r\n", b""
                sent += head
            case 1:
                sent += head + b"Transfer-Encoding: chunked\r\n\r\n"
                sent += b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body, body) if part) + b"0\r\n\r\n"
                body += body
            case 2:
                sent += head + b"Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            case _:
                sent += head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        expected.append(f"{head[:4].decode().strip()} /{number} ".encode() + body)
    async with _served(_echo) as served, asyncio.timeout(LONG_SECONDS):

        async def write() -> None:
            at = 0
            while at < len(sent):
                size = drawn.randint(1, most)
                served.writer.write(sent[at : at + size])
                at += size
                await served.writer.drain()
                await asyncio.sleep(0)

        writing = asyncio.create_task(write())
        for each in expected:
            assert (await raw.answer(served.reader))[::2] == (200, each)
        await writing


async def test_requests_behind_another_stay_bytes() -> None:
    """A client may send thousands of requests and read no answer: only the one that is served costs more than bytes."""
    may_answer = asyncio.Event()
    count = 5_000

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await may_answer.wait()
        await _echo(scope, receive, send)

    async with _served(answer) as served, asyncio.timeout(LONG_SECONDS):
        served.writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * count)
        await until(lambda: _cycles(), "the first is served")
        # Time in which all that has arrived would be parsed.
        await asyncio.sleep(0.2)
        assert _cycles() <= 2
        may_answer.set()
        for _ in range(count):
            assert (await raw.answer(served.reader))[0] == 200
        assert _cycles() <= 2


def _cycles() -> int:
    # Not isinstance, which asks what a weak proxy leads to.
    return sum(type(each) is RequestResponseCycle for each in gc.get_objects())


@pytest.mark.parametrize(
    ("target", "lines"),
    [
        ("healthz", [f"X-Large: {'x' * 16_384}"]),
        ("healthz", [f"X-Small-{number}: x" for number in range(100)]),
        ("healthz", [f"Cookie: {'a=b; ' * 4_000}"]),
        ("x" * 16_384, []),
    ],
    ids=("field", "fields", "cookie", "target"),
)
async def test_a_head_that_is_too_large(inner: Inner, target: str, lines: list[str]) -> None:
    """It is refused before anything looks at it, and the connection ends."""
    async with inner.running_facade() as facade, raw.connected(facade) as (reader, writer):
        head = "\r\n".join([f"GET /{target} HTTP/1.1", "Host: localhost", *lines, "", ""])
        writer.write(head.encode())
        status, headers, body = await raw.answer(reader)
        assert (status, headers["connection"]) == (431, "close")
        assert json.loads(body)["message"].startswith("the head of the request: expected at most ")


@pytest.mark.parametrize(
    ("begin", "piece", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"x" * 1_000, 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"x" * 1_000, 431),
        (b"", b"\r\n" * 500, 431),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 1_000, 431),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"x" * 1_000, 431),
    ],
    ids=("value", "name", "empty lines", "chunk", "trailer"),
)
async def test_a_line_without_an_end_is_not_gathered(begin: bytes, piece: bytes, status: int) -> None:
    """The parser would keep all of it, and copy it for each piece."""

    async def answer(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async with _served(answer) as served:
        served.writer.write(begin)
        for _ in range(17):
            served.writer.write(piece)
            await asyncio.sleep(0)
        assert (await raw.answer(served.reader))[0] == status


async def test_silent_connections_end(inner: Inner) -> None:
    """Silence, half of a head or empty lines must hold no place for long; an answered connection is kept as before."""
    async with inner.running_facade(head_seconds=0.5) as facade:
        for sent, status in ((b"", None), (b"G", 408), (b"GET /healthz HTTP/1.1\r\nHost:", 408), (b"\r\n", None)):
            async with raw.connected(facade) as (reader, writer):
                writer.write(sent)
                async with asyncio.timeout(STEP_SECONDS):
                    answered = await reader.read()
            assert (answered == b"") if status is None else answered.startswith(b"HTTP/1.1 %d " % status)
        async with raw.connected(facade) as (reader, writer):
            for _ in range(2):
                await raw.ask(reader, writer)
                # Longer than a head may take.
                await asyncio.sleep(0.6)
            writer.write(b"\r\n")
            async with asyncio.timeout(STEP_SECONDS):
                assert await reader.read() == b"", "an empty line begins no second wait without end"


async def test_idle_connections_make_room(inner: Inner) -> None:
    """However many silent connections come, whoever sends its request at once is served, and keeps its connection."""
    async with (
        inner.running_facade(connections_per_address=8) as facade,
        AsyncExitStack() as stack,
    ):

        async def silent(count: int) -> list[asyncio.StreamReader]:
            return [(await stack.enter_async_context(raw.connected(facade)))[0] for _ in range(count)]

        served = await stack.enter_async_context(raw.connected(facade))
        await raw.ask(*served)
        many = await silent(30)
        new = await stack.enter_async_context(raw.connected(facade))
        many += await silent(4)
        for client in (new, served):
            await raw.ask(*client)
        await until(lambda: sum(each.at_eof() or each.exception() is not None for each in many) == len(many) - (8 - 2))


async def test_the_connection_that_is_used_the_least_makes_room(inner: Inner) -> None:
    """Of connections that have all been used, the one whose last request is longest ago."""
    async with (
        inner.running_facade(connections_per_address=3) as facade,
        AsyncExitStack() as stack,
    ):
        used = [await stack.enter_async_context(raw.connected(facade)) for _ in range(3)]
        for number in (0, 1, 2, 0):
            await raw.ask(*used[number])
        await raw.ask(*(await stack.enter_async_context(raw.connected(facade))))
        await raw.ask(*used[0])
        await raw.ask(*used[2])
        async with asyncio.timeout(STEP_SECONDS):
            with suppress(ConnectionError):
                assert await used[1][0].read() == b""


async def test_busy_connections_are_not_ended_for_others(place: Place, inner: Inner) -> None:
    """At the limit, who comes is refused where all others are served."""
    data = content("busy", 100)
    async with (
        inner.running_facade(connections=2) as facade,
        AsyncExitStack() as stack,
    ):
        action = await place.action("upload", data)
        busy = [await stack.enter_async_context(raw.connected(facade)) for _ in range(2)]
        for _, writer in busy:
            writer.write(raw.head(action, "PUT", Content_Length=str(len(data))) + data[:50])
            await writer.drain()
        await until(lambda: REGISTRY.get_sample_value("towpath_http_requests_in_flight") == 2, "both are served")
        refused, writer = await stack.enter_async_context(raw.connected(facade))
        async with asyncio.timeout(STEP_SECONDS):
            with suppress(ConnectionError):
                assert await refused.read() == b""
        for reader, writer in busy:
            writer.write(data[50:])
            assert (await raw.answer(reader))[0] == 200
