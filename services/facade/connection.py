"""The facade's side of one HTTP connection: what uvicorn's leaves open."""

import asyncio
import json
import uuid
from collections.abc import Callable

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from services.common.logs import get_logger
from services.facade import metrics
from services.facade.dialect import NEUTRAL

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


class Connection(HttpToolsProtocol):
    """A connection with a bound on a request's head, an Error body for what is no HTTP, and a way to end it."""

    _head_bytes = 0

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
