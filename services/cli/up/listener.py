"""Listening socket for clients. It outlives the facades, so that a restart of a facade only makes clients wait."""

import errno
import socket

from services.cli.errors import CommandError
from services.common.addresses import Address

_BACKLOG = 1024
_LAST_PORT = 65535
_NEXT_PORT = 10


def listen(address: Address) -> tuple[socket.socket, Address]:
    """Listen on an address; return the socket, and the address with its real port. The caller closes the socket.

    Raises `CommandError` if the port is taken or the host is not an address of this machine.
    """
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(target)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = _hint(address) if error.errno == errno.EADDRINUSE else ""
        raise CommandError(f"cannot listen on {address}: {reason}{hint}") from error
    return listener, Address(address.host, listener.getsockname()[1])


def inherit(descriptor: int, address: Address) -> tuple[socket.socket, Address]:
    """Return the socket of a descriptor that listens already, and the address with its real port."""
    listener = socket.socket(fileno=descriptor)
    listener.set_inheritable(False)
    return listener, Address(address.host, listener.getsockname()[1])


def _hint(taken: Address) -> str:
    """Return the end of the message about a taken port: the option that selects another port."""
    port = taken.port + _NEXT_PORT if taken.port + _NEXT_PORT <= _LAST_PORT else taken.port - _NEXT_PORT
    option = f"--listen {Address(taken.host, port)}"
    return f'; `towpath up {option}` takes another port, and so does `make run ARGS="{option}"`'
