"""TLS handshakes: a connection counts from the moment that it is accepted, and its handshake is bounded."""

import asyncio
import socket
from contextlib import suppress
from functools import partial
from typing import Any

from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from services.facade.server.certificate import Certificate
from services.facade.server.connections import ConnectionLimits
from services.facade.server.protocol import Connection

HANDSHAKE_SECONDS = 10.0
"""The time in which a handshake must be complete."""


class Handshake(asyncio.Protocol):
    """A connection whose handshake is not complete: it is counted, and makes room for others as an idle one does.

    A server that is given the certificate names a connection only after the handshake, so it is given none: it accepts
    the connection, and the handshake is made here, on the same socket. A `Connection` takes the place afterwards.
    """

    is_idle = True
    has_asked = False

    def __init__(
        self,
        *,
        server_state: ServerState,
        limits: ConnectionLimits,
        certificate: Certificate,
        **named: Any,  # noqa: ANN401 - uvicorn's own
    ) -> None:
        self._open: set[Any] = server_state.connections
        self._connections = limits.connections
        self._context = certificate.context
        self._named = {"server_state": server_state, "limits": limits, **named}
        self._socket: socket.socket | None = None
        self._shaking: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn's own
        """Begin the handshake, or abort the connection where there are too many."""
        client = get_remote_addr(transport)
        try:
            # This transport may read before TLS begins; a new one of the same socket reads all bytes as TLS.
            accepted = transport.get_extra_info("socket").dup()
        finally:
            transport.abort()
        if not self._connections.add(self, client[0] if client else ""):
            accepted.close()
            return
        self._open.add(self)
        self._socket = accepted
        self._shaking = asyncio.create_task(self._shake(accepted))

    async def _shake(self, accepted: socket.socket) -> None:
        secured = partial(_Secured, self, **self._named)
        try:
            # A client may speak no TLS or another version, be too slow, or be gone.
            with suppress(OSError):
                await asyncio.get_running_loop().connect_accepted_socket(
                    secured, accepted, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_SECONDS
                )
        finally:
            self.end()

    def end(self) -> None:
        """Stop counting the handshake."""
        self._connections.discard(self)
        self._open.discard(self)

    def evict(self) -> None:
        """End the connection at once, in favour of another."""
        # The loop may be reading the socket, and closes it.
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def shutdown(self) -> None:
        """End the connection, because the server stops."""
        self.evict()


class _Secured(Connection):
    """The connection that a handshake becomes."""

    def __init__(self, handshake: Handshake, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(**named)
        self._handshake = handshake

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn's own
        """Take the place of the handshake."""
        self._handshake.end()
        super().connection_made(transport)
