"""Events of locks as server-sent events (docs/protocol.md, "Events of locks")."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import NotFound, PermissionDenied, ResourceExhausted, ServiceError, Unauthenticated
from services.common.observability.logs import get_logger
from services.facade.clients.lock_feeds import PAUSE_SECONDS
from services.facade.clients.lock_parts import Part
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
_ENDS = (Unauthenticated, NotFound, PermissionDenied, ResourceExhausted)

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

    `check_access` is asked three times a second, and before each event; the stream ends when it refuses, and where the
    caller takes the events too slowly. While the lock service is away, the stream waits, and then goes on where it was.
    """
    yield _RECONNECT
    sent_at, is_first = time.monotonic(), True
    try:
        async with aclosing(clients.lock_feeds.watch(repository_id, after)) as parts:
            async for part in parts:
                while not await _is_answered(check_access) and not stop.is_set():
                    yield _COMMENT
                    await asyncio.sleep(PAUSE_SECONDS)
                if stop.is_set():
                    return
                told = b"" if part is None else _told(part, is_first=is_first)
                is_first = is_first and part is None
                if told or time.monotonic() - sent_at >= _COMMENT_SECONDS:
                    sent_at = time.monotonic()
                    yield told or _COMMENT
    except _ENDS:
        return
    except ServiceError as error:
        _log.error("the watch of locks cannot go on", reason=error.reason, message=error.message)


async def _is_answered(check_access: Callable[[], Awaitable[None]]) -> bool:
    """Return whether the access goes on; False while nobody knows. Raises the errors by which it has ended."""
    try:
        await check_access()
    except _ENDS:
        raise
    except ServiceError as error:
        _log.info("the access to a watch is not known", reason=error.reason, message=error.message)
        return False
    return True


def _told(part: Part, *, is_first: bool) -> bytes:
    """Return the server-sent events of a part. The first part is told even if it has no event."""
    response = part.response
    if response.reset:
        return _event("reset", response.position, {"generation": _generation(response.position)})
    if part.encoded is None:
        part.encoded = b"".join(_event(_name(event), event.position, _body(event)) for event in response.events)
    if not is_first:
        return part.encoded
    return _event("ready", response.position, {"generation": _generation(response.position)}) + part.encoded


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
