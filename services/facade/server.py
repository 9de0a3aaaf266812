"""The HTTP server: where it listens, and how it stops."""

import asyncio
import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from services.facade.connection import Connection

# Longer than the widespread client keeps a silent connection (client 3.2), so that the client closes it first.
_KEEP_ALIVE_SECONDS = 60
_BACKLOG = 2048


def listening_socket(listen: str) -> socket.socket:
    """Return the socket for `HOST:PORT` (`[::1]:8080` for IPv6), or the inherited one for `fd:N`; the caller closes it.

    Raises ValueError for any other text, OSError where the address cannot be had.
    """
    if listen.startswith("fd:"):
        return socket.socket(fileno=int(listen.removeprefix("fd:")))
    host, colon, port = listen.rpartition(":")
    if not (colon and host and port.isdecimal()):
        raise ValueError(f"listen: expected HOST:PORT or fd:N, got {listen}")
    return socket.create_server(
        (host.strip("[]"), int(port)),
        family=socket.AF_INET6 if ":" in host else socket.AF_INET,
        backlog=_BACKLOG,
    )


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: `stop` of `serve` tells when to end."""
        yield


async def serve(app: ASGIApp, listener: socket.socket, stop: asyncio.Event, *, drain_seconds: float) -> None:
    """Serve until `stop` is set; then take no new request, let those that run end within the bound, and return.

    It owns `listener` from then on.
    """
    listener.setblocking(False)
    server = _Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_config=None,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=math.ceil(drain_seconds),
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    finally:
        stopping.cancel()
