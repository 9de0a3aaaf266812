"""Lets the endpoints see each request as its client sent it, whatever proxies stand between."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from services.facade.forwarded import Networks, Outside, outside
from services.facade.request_log import note


def outside_of(scope: Scope) -> Outside:
    """Return what `Forwarding` found out about a request."""
    seen: Outside = scope["state"]["outside"]
    return seen


class Forwarding:
    """Finds out who the client is and what it asked for, and names it in the log line; `outside_of` tells the rest."""

    def __init__(self, app: ASGIApp, *, trusted: Networks) -> None:
        self._app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "http":
            peer, _ = scope.get("client") or ("", 0)
            seen = outside(peer, scope["scheme"], Headers(scope=scope), self._trusted)
            scope.setdefault("state", {})["outside"] = seen
            note(scope, client=seen.address)
        await self._app(scope, receive, send)
