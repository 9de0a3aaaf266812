"""Answers that carry an object: Content-Length is set, so that an answer is whole or visibly cut."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from services.common.errors import PermissionDenied, ServiceError
from services.common.observability.logs import get_logger
from services.facade.server.protocol import abort
from services.facade.server.sendfile import FILE_MESSAGE, FilePart
from services.facade.web.request_log import add_log_fields

_log = get_logger(__name__)


def can_send_files(scope: Scope) -> bool:
    """Return whether the server can let the kernel send parts of files for this request."""
    return FILE_MESSAGE in scope.get("extensions", {})


class WholeResponse(Response):
    """Sends an object, or a part of it, that is in memory."""

    def __init__(self, data: bytes | bytearray, *, status_code: int, headers: Mapping[str, str]) -> None:
        super().__init__(status_code=status_code, headers=headers)
        self._data = data

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self._data})


class ObjectResponse(Response):
    """Sends `first` and then `rest`; where that fails, the connection is aborted before the answer is complete."""

    def __init__(
        self,
        first: bytes | FilePart,
        rest: AsyncGenerator[bytes | FilePart, None],
        *,
        status_code: int,
        headers: Mapping[str, str],
        idle_seconds: float,
    ) -> None:
        super().__init__(status_code=status_code, headers=headers)
        self._first = first
        self._rest = rest
        self._idle_seconds = idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; end early when the client closes the connection or reads nothing for `idle_seconds`."""
        try:
            async with aclosing(self._rest):
                await self._send_pieces(scope, receive, send)
        except TimeoutError:
            _log.warning("the client reads nothing", seconds=self._idle_seconds)
            await abort(scope)
        except PermissionDenied as error:
            _log.info("the object may not be read on", message=error.message)
            await abort(scope)
        except ServiceError as error:
            _log.error("the object cannot be read on", status=error.status.name, message=error.message)
            await abort(scope)
        except (EOFError, OSError) as error:
            _log.error("the object cannot be read on", message=str(error))
            await abort(scope)

    async def _send_pieces(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_disconnect(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._send(self._first, send)
            async for piece in self._rest:
                if gone.done():
                    add_log_fields(scope, cancelled_by="client")
                    return
                await self._send(piece, send)
            await self._send(b"", send, more=False)
        finally:
            gone.cancel()

    async def _send(self, piece: bytes | FilePart, send: Send, *, more: bool = True) -> None:
        message: Message
        if isinstance(piece, FilePart):
            message = {"type": FILE_MESSAGE, "file": piece.file, "offset": piece.offset, "count": piece.count}
        else:
            message = {"type": "http.response.body", "body": piece}
        async with asyncio.timeout(self._idle_seconds):
            await send({**message, "more_body": more})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
