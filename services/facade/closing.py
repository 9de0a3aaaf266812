"""How clients are told that the facade stops: each answer is the last on its connection, and what is cut off is 503."""

import asyncio

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.common.errors import Reason, Unavailable
from services.facade.connection import abort
from services.facade.errors import ErrorRenderer
from services.facade.request_log import note


class Closing:
    """Ends the connection with the answer, once `stop` is set; the client's next one reaches another facade.

    A request that the server cancels then has its answer too, where none has begun; else its connection ends at once.
    """

    def __init__(self, app: ASGIApp, stop: asyncio.Event, errors: ErrorRenderer) -> None:
        self._app = app
        self._stop = stop
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        has_begun = False

        async def closing_send(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                if self._stop.is_set():
                    MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        try:
            await self._app(scope, receive, closing_send)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._stop.is_set() or task is None:
                raise
            # The cancellation is answered here, and is to end nothing else.
            task.uncancel()
            note(scope, cancelled_by="stop")
            if has_begun:
                await abort(scope)
            else:
                error = Unavailable(Reason.UNAVAILABLE, "the server stops")
                await self._errors.render(error, scope)(scope, receive, closing_send)
