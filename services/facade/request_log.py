"""What surrounds every request: its id, its log line, and an answer to what nobody foresaw."""

import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.common import request_id
from services.common.logs import get_logger

_log = get_logger(__name__)


def note(scope: Scope, **fields: str | int) -> None:
    """Add fields to the log line of a request; never a credential."""
    scope["state"].setdefault("log", {}).update(fields)


class RequestLog:
    """Gives each request its id, tells it in `X-Request-Id`, and writes one log line when it has ended."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; what escapes the application is logged, its answer has been sent already."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        current = request_id.adopt(Headers(scope=scope).get("x-request-id"))
        fields: dict[str, Any] = {}
        scope.setdefault("state", {})["log"] = fields
        status = bytes_in = bytes_out = 0
        started = time.monotonic()

        async def counted_receive() -> Message:
            nonlocal bytes_in
            message = await receive()
            bytes_in += len(message.get("body", b""))
            return message

        async def counted_send(message: Message) -> None:
            nonlocal status, bytes_out
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = current
            bytes_out += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, counted_receive, counted_send)
        except Exception:
            # Nothing is known of it; the client was told 500 by the handler that the application has for this.
            _log.exception("request failed")
        finally:
            _log.info(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                seconds=round(time.monotonic() - started, 6),
                bytes_in=bytes_in,
                bytes_out=bytes_out,
                **fields,
            )
