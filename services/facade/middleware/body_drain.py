"""How a request is answered whose body was not read to its end: the client can read the answer (client 3.4)."""

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.facade.middleware.concurrency_limit import release_slot
from services.facade.web.request_body import has_body

_DRAIN_SECONDS = 10.0
_DRAIN_BYTES = 64 * 1024**2
# A body as small as this has come, or comes at once; reading it keeps the connection usable.
_SMALL_BYTES = 64 * 1024
_SMALL_SECONDS = 0.1


class BodyDrain:
    """Answers in full, then reads on for a while, then ends the connection: closing it at once would reset it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        headers = Headers(scope=scope)
        if not has_body(headers):
            await self._app(scope, receive, send)
            return
        body = _RequestBody(headers, receive)

        async def drained_send(message: Message) -> None:
            if body.is_read:
                await send(message)
            elif message["type"] == "http.response.start":
                await body.read_small_rest()
                if not body.is_read:
                    MutableHeaders(scope=message)["Connection"] = "close"
                await send(message)
            elif message["type"] == "http.response.body" and not message.get("more_body", False):
                release_slot(scope)
                await send({**message, "more_body": True})
                await body.read_rest(_DRAIN_BYTES, _DRAIN_SECONDS)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await send(message)

        await self._app(scope, body.receive, drained_send)


class _RequestBody:
    """The body of a request that has one, and whether it was read to its end."""

    def __init__(self, headers: Headers, receive: Receive) -> None:
        self._receive = receive
        self._length = headers.get("content-length")
        # Such a client sends nothing before it is told to go on, which reading does.
        self._is_held_back = headers.get("expect", "").lower() == "100-continue"
        self.is_read = False

    async def receive(self) -> Message:
        """Return the next message, and see whether it is the last."""
        self._is_held_back = False
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.is_read = True
        return message

    async def read_small_rest(self) -> None:
        """Read a small body to its end, if it is there."""
        if self._length is not None and int(self._length) <= _SMALL_BYTES:
            await self.read_rest(_SMALL_BYTES, _SMALL_SECONDS)

    async def read_rest(self, max_bytes: int, max_seconds: float) -> None:
        """Read what comes, up to a bound, and forget it."""
        left = max_bytes
        with suppress(TimeoutError):
            async with asyncio.timeout(max_seconds):
                while not (self.is_read or self._is_held_back) and left >= 0:
                    left -= len((await self.receive()).get("body", b""))
