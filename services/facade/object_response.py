"""The answer that carries an object: its length is told beforehand, and it is whole or visibly cut."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from services.common.errors import ServiceError
from services.common.logs import get_logger
from services.facade.connection import abort

_log = get_logger(__name__)


class ObjectResponse(Response):
    """Sends `first` and then `rest`; where that fails, the connection ends before the promised length is sent."""

    def __init__(
        self,
        first: bytes,
        rest: AsyncGenerator[bytes, None],
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
        gone = asyncio.create_task(_disconnect(receive))
        try:
            async with aclosing(self._rest):
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await self._send(self._first, send)
                async for data in self._rest:
                    if gone.done():
                        return
                    await self._send(data, send)
                await self._send(b"", send, more=False)
        except TimeoutError:
            _log.warning("the client reads nothing", seconds=self._idle_seconds)
            await abort(scope)
        except ServiceError as error:
            _log.error("the object cannot be read on", status=error.status.name, message=error.message)
            await abort(scope)
        finally:
            gone.cancel()

    async def _send(self, data: bytes, send: Send, *, more: bool = True) -> None:
        async with asyncio.timeout(self._idle_seconds):
            await send({"type": "http.response.body", "body": data, "more_body": more})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
