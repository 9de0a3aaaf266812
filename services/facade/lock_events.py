"""Events of locks as server-sent events (docs/protocol.md, "Events of locks")."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import grpc
from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import NotFound, PermissionDenied, ResourceExhausted, ServiceError, Unauthenticated
from services.common.observability.logs import get_logger
from services.facade.clients.services import ServiceClients
from services.facade.locks import Body, lock_body
from services.facade.server.protocol import abort
from services.facade.web.error_reasons import invalid_reply
from services.facade.web.request_log import add_log_fields
from services.facade.web.responses import timestamp

_NAMES = {
    pb.LOCK_EVENT_TYPE_CREATED: "lock.created",
    pb.LOCK_EVENT_TYPE_RELEASED: "lock.released",
    pb.LOCK_EVENT_TYPE_STOLEN: "lock.stolen",
}
_RECONNECT = b"retry: 1000\n\n"
_COMMENT = b":\n\n"
_COMMENT_SECONDS = 15.0
# An access that has ended is noticed within this time.
_LOOK_SECONDS = 0.3
# The lock service sends something every ten seconds.
_SILENT_SECONDS = 20.0
_PAUSE_SECONDS = 0.5

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

_log = get_logger(__name__)


async def watch(
    clients: ServiceClients,
    repository_id: int,
    after: str | None,
    *,
    check_access: Callable[[], Awaitable[None]],
    stop: asyncio.Event,
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a repository's locks after a position, or from now on, until `stop` is set.

    `check_access` is asked three times a second, and before each event; the stream ends when it refuses. While the lock
    service is away, the stream waits, and then goes on where it was.
    """
    yield _RECONNECT
    sent_at, position, is_first = time.monotonic(), after, True
    while not stop.is_set():
        try:
            async with aclosing(_responses(clients, repository_id, position)) as responses:
                async for response in responses:
                    await check_access()
                    if stop.is_set():
                        return
                    told = b"" if response is None else _told(response, is_first=is_first)
                    if response is not None:
                        position, is_first = response.position, False
                    if told or time.monotonic() - sent_at >= _COMMENT_SECONDS:
                        sent_at = time.monotonic()
                        yield told or _COMMENT
        except (Unauthenticated, NotFound, PermissionDenied, ResourceExhausted):
            return
        except ServiceError as error:
            _log.info("the watch of locks is interrupted", reason=error.reason, message=error.message)
            yield _COMMENT
        await asyncio.sleep(_PAUSE_SECONDS)


async def _responses(
    clients: ServiceClients, repository_id: int, position: str | None
) -> AsyncGenerator[pb.WatchLocksResponse | None, None]:
    """Yield the responses of one call until the lock service ends it, and None whenever none came for a while.

    Raises the errors of LockService.WatchLocks.
    """
    request = pb.WatchLocksRequest(repository_id=repository_id, after=position)
    call = clients.lock_stub.WatchLocks(request, metadata=clients.locks.metadata(), wait_for_ready=True)
    reading = asyncio.ensure_future(call.read())
    heard_at = time.monotonic()
    try:
        while True:
            done, _ = await asyncio.wait({reading}, timeout=_LOOK_SECONDS)
            if not done:
                if time.monotonic() - heard_at >= _SILENT_SECONDS:
                    return
                yield None
                continue
            response = reading.result()
            if not isinstance(response, pb.WatchLocksResponse):
                return
            heard_at = time.monotonic()
            yield response
            reading = asyncio.ensure_future(call.read())
    except grpc.aio.AioRpcError as error:
        raise clients.locks.error(error) from error
    finally:
        reading.cancel()
        call.cancel()


def _told(response: pb.WatchLocksResponse, *, is_first: bool) -> bytes:
    """Return the server-sent events of a response. The first response is told even if it has no event."""
    if response.reset:
        return _event("reset", response.position, {"generation": _generation(response.position)})
    ready = _event("ready", response.position, {"generation": _generation(response.position)}) if is_first else b""
    return ready + b"".join(_event(_name(event), event.position, _body(event)) for event in response.events)


def _name(event: pb.LockEvent) -> str:
    name = _NAMES.get(event.type)
    if name is None:
        raise invalid_reply("WatchLocks", "an event lacks its type")
    return name


def _event(name: str, position: str, body: Body) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (position.encode(), name.encode(), to_json(body))


def _body(event: pb.LockEvent) -> Body:
    """Return the body of a `LockEvent`."""
    body: Body = {
        "lock": lock_body(event.lock),
        "by": {"name": event.caused_by},
        "forced": event.forced,
        "created_at": timestamp(event.created_at.seconds),
        "generation": _generation(event.position),
    }
    if event.reason:
        body["reason"] = event.reason
    if event.previous_id:
        body["previous"] = {"id": event.previous_id, "owner": {"name": event.previous_owner_name}}
    return body


def _generation(position: str) -> int:
    generation = position.partition("-")[0]
    if not generation.isdecimal():
        raise invalid_reply("WatchLocks", "a position lacks its generation")
    return int(generation)


class EventStream(Response):
    """Sends server-sent events until they end, or the client is gone or reads nothing for `idle_seconds`."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], *, idle_seconds: float, ended: Callable[[], None]) -> None:
        super().__init__(headers=_HEADERS)
        # The length of the empty content is not that of the stream.
        del self.headers["content-length"]
        self._events = events
        self._idle_seconds = idle_seconds
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; call `ended` in any case."""
        sending = asyncio.create_task(self._send(send))
        gone = asyncio.create_task(_disconnect(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                add_log_fields(scope, cancelled_by="client")
            else:
                await sending
        except TimeoutError:
            _log.warning("the client reads nothing", seconds=self._idle_seconds)
            await abort(scope)
        finally:
            self._ended()
            gone.cancel()
            sending.cancel()
            await asyncio.wait({sending, gone})

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._events):
            async for event in self._events:
                async with asyncio.timeout(self._idle_seconds):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
