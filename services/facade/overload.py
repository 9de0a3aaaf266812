"""How many requests are served at once: those above are told to come again (429: a client repeats no 503)."""

from starlette.types import ASGIApp, Receive, Scope, Send

from services.common.errors import Reason, ResourceExhausted
from services.facade.errors import ErrorRenderer

# What watches over the facade must be answered then above all.
_UNLIMITED = ("/healthz", "/readyz")
_RETRY_SECONDS = "1"


class Overload:
    """Answers 429 while as many requests are served as there may be."""

    def __init__(self, app: ASGIApp, *, limit: int, errors: ErrorRenderer) -> None:
        self._app = app
        self._limit = limit
        self._errors = errors
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it before anything is done for it."""
        if scope["type"] != "http" or scope["path"] in _UNLIMITED:
            await self._app(scope, receive, send)
            return
        if self._in_flight >= self._limit:
            error = ResourceExhausted(
                Reason.RATE_LIMITED, "too many requests are being served", retry_after=_RETRY_SECONDS
            )
            await self._errors.render(error, scope)(scope, receive, send)
            return
        self._in_flight += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_flight -= 1
