"""Draining of request bodies that were not read, so that the client can read the answer (client-early-refusal)."""

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.facade.middleware.concurrency_limit import release_slot
from services.facade.web.request_body import has_body

_DRAIN_SECONDS = 10.0
_DRAIN_BYTES = 64 * 1024**2
# A body as small as this has arrived or arrives at once; reading it leaves the connection usable.
_SMALL_BYTES = 64 * 1024
_SMALL_SECONDS = 0.1


class BodyDrain:
    """Sends the whole answer, reads on for up to 10 s or 64 MiB, then closes the connection.

    Closing the connection with unread bytes would reset it, and the client could lose the answer.
    """

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
    """The body of a request; `is_read` is set once the body was read to its end."""

    def __init__(self, headers: Headers, receive: Receive) -> None:
        self._receive = receive
        self._length = headers.get("content-length")
        # The client sends no body before it gets 100 Continue, and the server sends that at the first read.
        self._is_held_back = headers.get("expect", "").lower() == "100-continue"
        self.is_read = False

    async def receive(self) -> Message:
        """Return the next message, and set `is_read` if it is the last."""
        self._is_held_back = False
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.is_read = True
        return message

    async def read_small_rest(self) -> None:
        """Read a small body to its end, if the rest arrives within 0.1 s."""
        if self._length is not None and int(self._length) <= _SMALL_BYTES:
            await self.read_rest(_SMALL_BYTES, _SMALL_SECONDS)

    async def read_rest(self, max_bytes: int, max_seconds: float) -> None:
        """Read and discard the rest of the body, up to these bounds."""
        left = max_bytes
        with suppress(TimeoutError):
            async with asyncio.timeout(max_seconds):
                while not (self.is_read or self._is_held_back) and left >= 0:
                    left -= len((await self.receive()).get("body", b""))
