"""How clients are told that the facade stops: each answer is the last on its connection."""

import asyncio

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Closing:
    """Ends the connection with the answer, once `stop` is set; the client's next one reaches another facade."""

    def __init__(self, app: ASGIApp, stop: asyncio.Event) -> None:
        self._app = app
        self._stop = stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""

        async def closing_send(message: Message) -> None:
            if message["type"] == "http.response.start" and self._stop.is_set():
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        await self._app(scope, receive, closing_send)
