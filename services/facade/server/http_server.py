"""The HTTP server: its listening socket, and its graceful stop."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from services.common.addresses import Address
from services.common.observability.logs import get_logger
from services.facade.server.certificate import Certificate
from services.facade.server.connections import ConnectionLimits
from services.facade.server.handshake import Handshake
from services.facade.server.protocol import Connection

# Longer than git-lfs leaves an idle connection open (client-connections), so that the client closes it first.
_KEEP_ALIVE_SECONDS = 60
_BACKLOG = 2048
# Idle connections stay open for this time at a stop, because a client may be sending its next request.
_LINGER_SECONDS = 0.5
_LOOK_SECONDS = 0.05
# The time in which cancelled requests must have answered their clients.
_CUT_OFF_SECONDS = 1.0

_log = get_logger(__name__)


def is_inherited(listen: str) -> bool:
    """Return whether the listening socket is inherited from the parent process, and perhaps shared with others."""
    return listen.startswith("fd:")


def listening_socket(listen: str) -> socket.socket:
    """Return the socket for `HOST:PORT` (`[::1]:8080` for IPv6), or the inherited one for `fd:N`; the caller closes it.

    Raises ValueError for any other text, OSError where the address cannot be bound.
    """
    if is_inherited(listen):
        return socket.socket(fileno=int(listen.removeprefix("fd:")))
    try:
        address = Address.parse(listen)
    except ValueError as error:
        raise ValueError(f"listen: {error}, or fd:N") from None
    return socket.create_server(
        (address.host, address.port),
        family=socket.AF_INET6 if ":" in address.host else socket.AF_INET,
        backlog=_BACKLOG,
    )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, drain_seconds: float) -> None:
        super().__init__(config)
        self._drain_seconds = drain_seconds

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone, because the event `stop` of `serve` ends the server."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain, and end the remaining connections."""
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        loop = asyncio.get_running_loop()
        started = loop.time()
        lingering = started + min(_LINGER_SECONDS, self._drain_seconds)
        state = self.server_state
        # A request can outlive its connection: a complete upload is committed even if its client does not wait.
        while (state.tasks or state.connections) and loop.time() < started + self._drain_seconds:
            if not state.tasks and loop.time() >= lingering:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        await self._cut_off()
        # Idle connections only need to be closed.
        self.config.timeout_graceful_shutdown = 1
        await super().shutdown()

    async def _cut_off(self) -> None:
        """Cancel the requests that still run; `RequestScope` informs their clients."""
        if tasks := tuple(self.server_state.tasks):
            _log.warning("requests are cut off", requests=len(tasks), seconds=self._drain_seconds)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_CUT_OFF_SECONDS)


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    stop: asyncio.Event,
    *,
    limits: ConnectionLimits,
    drain_seconds: float,
    certificate: Certificate | None = None,
) -> None:
    """Serve until `stop` is set, HTTPS with a certificate and otherwise HTTP; then drain, and return.

    While it drains, the server accepts no new connection, answers further requests on open connections as long as any
    request runs, and cancels the requests that still run after `drain_seconds`. `limits` bounds the connections. The
    server owns `listener` from the call on; other processes may accept connections from the same socket.
    """
    listener.setblocking(False)
    accepted = partial(Handshake, certificate=certificate) if certificate else Connection
    server = _Server(
        uvicorn.Config(
            app,
            # uvicorn calls it like its own connection classes, with keyword arguments.
            http=cast("type[asyncio.Protocol]", partial(accepted, limits=limits)),
            ws="none",
            lifespan="off",
            interface="asgi3",
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_config=None,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        ),
        drain_seconds,
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    renewing = asyncio.create_task(certificate.keep_renewed()) if certificate else None
    try:
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    finally:
        stopping.cancel()
        if renewing:
            renewing.cancel()
