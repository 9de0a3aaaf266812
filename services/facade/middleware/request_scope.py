"""Outermost middleware: a request's id, client, log line, metrics and span, and its end at shutdown."""

import asyncio
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.common.errors import Reason, Unavailable
from services.common.observability import request_id, tracing
from services.common.observability.logs import get_logger
from services.facade import metrics
from services.facade.errors import ErrorRenderer
from services.facade.server.protocol import abort
from services.facade.server.sendfile import FILE_MESSAGE
from services.facade.web.forwarded_headers import Networks, resolve_client
from services.facade.web.request_log import add_log_fields, operation_of

_HEALTH = ("healthz", "readyz")
_SERVER_ERROR = 500
_MAX_LOGGED_PATH = 1024
# A browser takes an answer for what its Content-Type says, and gives it to no page of another site.
_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cross-origin-resource-policy", b"same-origin")]
_ONLY_HTTPS = (b"strict-transport-security", b"max-age=31536000")

_log = get_logger(__name__)


class RequestScope:
    """Gives each request an id, returned in `X-Request-Id`; counts and logs the request when it has ended.

    `forwarded_headers.client_of` returns the client that trusted proxies report. Once `stop` is set, each answer is the
    last on its connection. A request that the server then cancels is answered with an error if its answer has not
    begun; otherwise its connection is aborted.
    """

    def __init__(self, app: ASGIApp, *, trusted: Networks, stop: asyncio.Event, errors: ErrorRenderer) -> None:
        self._app = app
        self._trusted = trusted
        self._stop = stop
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; log an exception that the application raises after it has answered 500."""
        headers = Headers(scope=scope)
        current = request_id.adopt(headers.get("x-request-id"))
        peer, _ = scope.get("client") or ("", 0)
        seen = resolve_client(peer, scope["scheme"], headers, self._trusted)
        fields: dict[str, Any] = {"client": seen.address}
        scope["state"] = {"log": fields, "client": seen}
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
                message["headers"] += [(b"x-request-id", current.encode()), *_HEADERS]
                if seen.scheme == "https":
                    message["headers"].append(_ONLY_HTTPS)
                if self._stop.is_set():
                    MutableHeaders(scope=message)["Connection"] = "close"
            elif count := _bytes_of(message):
                bytes_out += count
                metrics.BYTES_OUT.inc(count)
            await send(message)

        metrics.IN_FLIGHT.inc()
        with tracing.serving(headers) as span:
            try:
                await self._app(scope, counted_receive, counted_send)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not self._stop.is_set() or task is None:
                    raise
                # The cancellation is handled here, and must not end anything else.
                task.uncancel()
                add_log_fields(scope, cancelled_by="stop")
                if status:
                    await abort(scope)
                else:
                    error = Unavailable(Reason.UNAVAILABLE, "the server stops")
                    await self._errors.render(error, scope)(scope, counted_receive, counted_send)
            except Exception:
                # The error is unexpected; the application's exception handler has already answered 500.
                _log.exception("request failed")
            finally:
                seconds = round(time.monotonic() - started, 6)
                operation = operation_of(scope)
                metrics.requests_of(operation, status).inc()
                is_watch = scope["state"].get("is_watch", False)
                if not is_watch:
                    # A watch ends when its client wants it to.
                    metrics.request_seconds_of(operation).observe(seconds)
                fields = {
                    "operation": operation,
                    "method": scope["method"],
                    "path": scope["path"][:_MAX_LOGGED_PATH],
                    "status": status,
                    "bytes_in": bytes_in,
                    "bytes_out": bytes_out,
                    **fields,
                }
                span.finish(operation, fields, failed=status >= _SERVER_ERROR)
                # Health probes arrive every few seconds and are no news.
                log = _log.debug if operation in _HEALTH else _log.info
                log("request", seconds=seconds, **fields)
                (metrics.WATCHES if is_watch else metrics.IN_FLIGHT).dec()


def _bytes_of(message: Message) -> int:
    """Return the number of bytes of an answer's body that a message carries."""
    return int(message["count"]) if message["type"] == FILE_MESSAGE else len(message.get("body", b""))
