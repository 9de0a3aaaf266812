"""What surrounds every request: its id, its log line, its place in the metrics."""

import logging
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.common import request_id, tracing
from services.common.logs import get_logger
from services.facade import metrics
from services.facade.file_sender import FILE_MESSAGE

_HEALTH = ("healthz", "readyz")
# Whoever asks for the head alone asks the same.
_SAME = {"head_healthz": "healthz", "head_readyz": "readyz"}
_SERVER_ERROR = 500

_log = get_logger(__name__)


def note(scope: Scope, **fields: str | int) -> None:
    """Add fields to the log line of a request; never a credential."""
    scope["state"].setdefault("log", {}).update(fields)


def operation_of(scope: Scope) -> str:
    """Return the operation id of the endpoint that a request has reached; "other" where there is none."""
    operation = getattr(scope.get("route"), "operation_id", None) or "other"
    return _SAME.get(operation, operation)


def _bytes_of(message: Message) -> int:
    """Return how many bytes of an answer's body a message carries."""
    return int(message["count"]) if message["type"] == FILE_MESSAGE else len(message.get("body", b""))


class RequestLog:
    """Gives each request its id, tells it in `X-Request-Id`; counts it and writes its log line when it has ended."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; what escapes the application is logged, its answer has been sent already."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        current = request_id.adopt(headers.get("x-request-id"))
        fields: dict[str, Any] = {}
        scope.setdefault("state", {})["log"] = fields
        status = bytes_in = bytes_out = 0
        started = time.monotonic()

        async def counted_receive() -> Message:
            nonlocal bytes_in
            message = await receive()
            if count := len(message.get("body", b"")):
                bytes_in += count
                metrics.BYTES_IN.inc(count)
            return message

        async def counted_send(message: Message) -> None:
            nonlocal status, bytes_out
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = current
            elif count := _bytes_of(message):
                bytes_out += count
                metrics.BYTES_OUT.inc(count)
            await send(message)

        metrics.IN_FLIGHT.inc()
        with tracing.serving(headers) as span:
            try:
                await self._app(scope, counted_receive, counted_send)
            except Exception:
                # Nothing is known of it; the client was told 500 by the handler that the application has for this.
                _log.exception("request failed")
            finally:
                seconds = round(time.monotonic() - started, 6)
                operation = operation_of(scope)
                metrics.requests_of(operation, status).inc()
                metrics.request_seconds_of(operation).observe(seconds)
                told = {
                    "operation": operation,
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "bytes_in": bytes_in,
                    "bytes_out": bytes_out,
                    **fields,
                }
                span.note(operation, told, failed=status >= _SERVER_ERROR)
                # Whoever watches over the process asks every few seconds; that is no news.
                level = logging.DEBUG if operation in _HEALTH else logging.INFO
                _log.log(level, "request", seconds=seconds, **told)
                metrics.IN_FLIGHT.dec()
