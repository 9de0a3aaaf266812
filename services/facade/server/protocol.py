"""The facade's side of one HTTP connection: uvicorn's protocol with the limits and checks that it lacks."""

import asyncio
import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

import httptools
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from services.common.observability.logs import get_logger
from services.facade import metrics
from services.facade.server.connections import ConnectionLimits
from services.facade.server.framing import body_bytes, end_of_part, error_answer, head_without_upgrade, refusal_of
from services.facade.server.head_buffer import HeadBuffer
from services.facade.server.sendfile import FILE_MESSAGE, FileSender

_ABORT = "towpath.abort"

_log = get_logger(__name__)


async def abort(scope: Scope) -> None:
    """Abort the connection of a request and discard unsent bytes, so that no client takes a part for the whole."""
    end: Callable[[], None] | None = scope.get("extensions", {}).get(_ABORT)
    if end is not None:
        end()
        # The server learns of the abort in the next iteration of the loop.
        await asyncio.sleep(0)


class Connection(HttpToolsProtocol):
    """A connection that bounds a request's head, answers invalid HTTP with an Error body, and can be aborted.

    Requests are parsed one by one: bytes that arrive behind a request stay bytes until it has its answer, and no more
    are read, because a client may send thousands of requests and read no answer.

    The head of an answer is not sent before its body. Where the end of a request is in doubt, the connection ends with
    the answer: behind a proxy that reuses connections, the bytes after it could be taken for another client's request.
    """

    # The bytes since the last ones of a body, which are a head, or frame a body in chunks.
    _framing_bytes = _head_fields = 0
    _in_head = False
    _in_body = False
    # The bytes of a body that are yet to come; None where it is in chunks.
    _body_left: int | None = 0
    _unparsed = b""
    _last = b""
    # The parser takes the bytes after this head for another protocol; see `data_received`.
    _upgrades = False
    # Incoming bytes are ignored from now on.
    _ends = False
    _head_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, limits: ConnectionLimits, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*arguments, **named)
        self._accepting = limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn's own
        """Begin to serve the connection, or abort it where there are too many."""
        super().connection_made(transport)
        if not self._accepting.connections.add(self, self.client[0] if self.client else ""):
            self._ends = True
            transport.abort()
            return
        self._await_head()
        self._holding = HeadBuffer(transport)
        self.transport = cast("asyncio.Transport", self._holding)
        self._files = FileSender(transport, self.flow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection, and stop its timers."""
        self._accepting.connections.discard(self)
        self._stop_head_timer()
        self._stop_unread_timer()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """True while no request is being served, and at most a part of a request's head has arrived."""
        cycle: RequestResponseCycle | None = self.cycle
        return not self._in_body and not self._unparsed and (cycle is None or cycle.response_complete)

    @property
    def has_asked(self) -> bool:
        """True once a request has arrived on the connection."""
        return self.cycle is not None

    def evict(self) -> None:
        """End the connection at once, in favour of another."""
        self._ends = True
        self.transport.abort()

    def _await_head(self) -> None:
        """Start the timeout for a head that is awaited or has begun."""
        if self._head_timer is None and not self._ends and (self._in_head or self.is_idle):
            self._head_timer = self.loop.call_later(self._accepting.head_seconds, self._head_is_late)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._in_head:
            seconds = self._accepting.head_seconds
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"the head of the request was not whole after {seconds:g} seconds")
        else:
            # A client that has sent nothing expects no answer.
            self._ends = True
            self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # noqa: ANN401 - uvicorn's types differ
        """Serve a request; only without TLS may its answer contain file parts, because the kernel does not encrypt."""
        if self.scheme == "https":
            super()._start_asgi_task(cycle, app)
            return

        async def with_files(scope: Scope, receive: Receive, send: Send) -> None:
            async def sending(message: Message) -> None:
                if message["type"] == FILE_MESSAGE:
                    # Yield to the loop: a client that is as fast as the server, or gone, would make all others wait.
                    await asyncio.sleep(0)
                    if not self.transport.is_closing():
                        self._holding.flush()
                    await self._files.send(cycle, message)
                else:
                    await send(message)

            await app(scope, receive, sending)

        cycle.scope["extensions"][FILE_MESSAGE] = {}
        served: Any = with_files
        super()._start_asgi_task(cycle, served)

    def on_response_complete(self) -> None:
        """End a request; send the buffered head, because an answer to HEAD has no body."""
        self._holding.flush()
        self._accepting.connections.request_ended(self)
        self._await_reading()
        super().on_response_complete()
        if self._unparsed:
            # Others are served between two requests of one connection.
            self.loop.call_soon(self._parse)

    def _await_reading(self) -> None:
        """Start the timeout for the client to read the rest of the answers that have ended."""
        self._stop_unread_timer()
        if unread := self.transport.get_write_buffer_size():
            self._unread_timer = self.loop.call_later(self._accepting.idle_seconds, self._look_at_unread, unread)

    def _stop_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _look_at_unread(self, before: int) -> None:
        # A request whose answer has begun waits for the client by itself, and writes meanwhile.
        waits = self.is_idle or not self.cycle.response_started
        if waits and self.transport.get_write_buffer_size() == before:
            _log.warning("the client reads nothing", seconds=self._accepting.idle_seconds)
            self.evict()
        else:
            self._await_reading()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._head_fields = 0
        self._in_head = True
        # The type lists the extensions that ASGI defines; a server may add others.
        self.scope["extensions"] = {_ABORT: self.transport.abort}  # type: ignore[dict-item] # see above

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; ignore trailers of a chunked body, because they would change a request that is being served."""
        self._head_fields += 1
        if self._head_fields > self._accepting.head_fields:
            self._refuse_head()
            raise ValueError("the parser goes no further")
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to serve a request, or refuse it where its head leaves its end or its host in doubt."""
        self._in_head, self._framing_bytes = False, 0
        self._stop_head_timer()
        if self.parser.should_upgrade():
            # CONNECT has no body, and can only mean a tunnel.
            if self.parser.get_method() == b"CONNECT":
                self._refuse(HTTPStatus.NOT_IMPLEMENTED, "the method CONNECT is not implemented")
            self._upgrades = not self._ends
            return
        if (refusal := refusal_of(self.parser.get_http_version(), self.headers)) is not None:
            self._refuse(*refusal)
            return
        self._in_body = True
        self._body_left = body_bytes(self.headers)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Add a part of a body."""
        self._framing_bytes = 0
        if self._body_left is not None:
            self._body_left -= len(body)
        if not self._ends:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a body."""
        self._in_body, self._framing_bytes = False, 0
        if not (self._upgrades or self._ends):
            super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Parse the bytes that have arrived, up to the end of a request that has no answer yet."""
        self._unparsed += data
        self._parse()

    def _parse(self) -> None:
        data, self._unparsed = self._unparsed, b""
        self._unset_keepalive_if_required()
        begin = 0
        while begin < len(data):
            if self._ends or self.transport.is_closing():
                return
            if self._awaits_answer:
                self._unparsed = data[begin:]
                self.flow.pause_reading()
                return
            end = end_of_part(data, begin, before=self._last, body_left=self._body_left if self._in_body else 0)
            part = data[begin:end]
            self._last = (self._last + part)[-2:]
            self._framing_bytes += len(part)
            # The parser gathers a line that does not end, and in a head nothing else comes that would be taken.
            if self._in_body or self._framing_bytes <= self._accepting.head_bytes:
                self._feed(part)
            if self._framing_bytes > self._accepting.head_bytes:
                self._refuse_head()
            begin = end
        self._await_head()

    @property
    def _awaits_answer(self) -> bool:
        """True while a request that has arrived whole has no whole answer."""
        cycle: RequestResponseCycle | None = self.cycle
        return not (self._in_head or self._in_body or cycle is None or cycle.response_complete)

    def _feed(self, data: bytes) -> None:
        """Parse bytes.

        A request with `Upgrade` is served as if it had no such header, because the facade speaks no other protocol. The
        parser would take the request's body for the next request, so a new parser reads the head again without that
        header.
        """
        while not self._ends:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as pause:
                if not self._upgrades:
                    return
                data = head_without_upgrade(self.parser, self.url, self.headers) + data[pause.args[0] :]
                self._upgrades = False
                self.parser = httptools.HttpRequestParser(self)
            except httptools.HttpParserError:
                self.send_400_response("the request is not HTTP/1.1")
                return
            else:
                return

    def _refuse_head(self) -> None:
        expected = f"at most {self._accepting.head_bytes} bytes and {self._accepting.head_fields} headers"
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head of the request: expected {expected}")

    def send_400_response(self, msg: str) -> None:
        """Answer invalid HTTP with 400, and end the connection."""
        self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def _refuse(self, status: HTTPStatus, msg: str) -> None:
        """Answer a request that is not served, and end the connection.

        No answer is written where this request is being answered.
        """
        if self._ends:
            return
        self._ends = True
        # Before the first request of a connection it is None, whatever its type says.
        cycle: RequestResponseCycle | None = self.cycle
        if cycle and not cycle.response_complete and cycle.response_started:
            self.transport.abort()
            return
        request_id = uuid.uuid4().hex
        metrics.REQUESTS.labels("other", status.value).inc()
        _log.info("request", operation="other", status=status.value, message=msg, request_id=request_id)
        self.transport.write(error_answer(status, msg, request_id))
        self.transport.close()
