"""The facade's side of one HTTP connection: what uvicorn's leaves open."""

import asyncio
import json
import uuid
from collections.abc import Callable
from typing import Any, cast

from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from services.common.logs import get_logger
from services.facade import metrics
from services.facade.dialect import NEUTRAL
from services.facade.file_sender import FILE_MESSAGE, FileSender

_ABORT = "towpath.abort"
_MOST_HEAD_BYTES = 64 * 1024

_log = get_logger(__name__)


async def abort(scope: Scope) -> None:
    """End the connection of a request at once, unsent bytes included, so that nobody takes a part for the whole."""
    end: Callable[[], None] | None = scope.get("extensions", {}).get(_ABORT)
    if end is not None:
        end()
        # The server hears of it in the next turn of the loop.
        await asyncio.sleep(0)


class _HoldingHeads:
    """A transport that sends the head of an answer together with what follows it.

    A facade that dies in between would leave a proxy with half an answer, which it has passed on and cannot ask another
    facade for; and one packet costs less than two. Whoever has written a head writes on, closes, or calls `flush`.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else a transport has
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            self._transport.writelines((self._head, data))
            self._head = b""
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 100 "):
            self._head = data
        else:
            self._transport.write(data)

    def flush(self) -> None:
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        self.flush()
        self._transport.close()


class Connection(HttpToolsProtocol):
    """A connection with a bound on a request's head, an Error body for what is no HTTP, and a way to end it.

    The head of an answer is not sent before its body.
    """

    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn's own
        """Begin to serve."""
        super().connection_made(transport)
        self._holding = _HoldingHeads(transport)
        self.transport = cast("asyncio.Transport", self._holding)
        self._files = FileSender(transport, self.flow)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # noqa: ANN401 - to uvicorn, ASGI has other types
        """Serve a request; its answer may have parts of files, which cannot be encrypted on their way."""
        if self.scheme == "https":
            super()._start_asgi_task(cycle, app)
            return

        async def with_files(scope: Scope, receive: Receive, send: Send) -> None:
            async def sending(message: Message) -> None:
                if message["type"] == FILE_MESSAGE:
                    # A client that is as fast as we are, or is gone, would keep all others waiting.
                    await asyncio.sleep(0)
                    self._holding.flush()
                    await self._files.send(cycle, message)
                else:
                    await send(message)

            await app(scope, receive, sending)

        cycle.scope["extensions"][FILE_MESSAGE] = {}
        served: Any = with_files
        super()._start_asgi_task(cycle, served)

    def on_response_complete(self) -> None:
        """End a request; an answer to HEAD has nothing but its head."""
        self._holding.flush()
        super().on_response_complete()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._head_bytes = 0
        # Typed as what ASGI defines; a server may add extensions of its own.
        self.scope["extensions"] = {_ABORT: self.transport.abort}  # type: ignore[dict-item] # see above

    def on_url(self, url: bytes) -> None:
        """Take a part of the target in."""
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header in."""
        self._count(name + value)
        super().on_header(name, value)

    def _count(self, data: bytes) -> None:
        self._head_bytes += len(data)
        if self._head_bytes > _MOST_HEAD_BYTES:
            raise ValueError("the head of the request is too large")

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, and end the connection; in the midst of another answer, only end it."""
        # The first request of a connection has none yet, whatever the type says.
        cycle: RequestResponseCycle | None = self.cycle
        if cycle and cycle.response_started and not cycle.response_complete:
            self.transport.abort()
            return
        request_id = uuid.uuid4().hex
        metrics.REQUESTS.labels("other", 400).inc()
        _log.info("request", operation="other", status=400, message=msg, request_id=request_id)
        body = json.dumps({"message": msg, "request_id": request_id}).encode()
        head = [
            "HTTP/1.1 400 Bad Request",
            f"Content-Type: {NEUTRAL.media_type}",
            f"Content-Length: {len(body)}",
            f"X-Request-Id: {request_id}",
            "Connection: close",
        ]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + body)
        self.transport.close()
