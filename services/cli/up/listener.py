"""The socket that clients connect to. It outlives the facade, so that a restart of it only makes them wait."""

import errno
import ipaddress
import socket
from dataclasses import dataclass
from typing import Self

from services.cli.errors import CommandError

_BACKLOG = 1024
_LAST_PORT = 65535
_NEXT_PORT = 10


@dataclass(frozen=True)
class Address:
    """A host and a port, as in `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`; port 0 is any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `HOST:PORT`. Raises ValueError."""
        host, separator, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError(f"expected HOST:PORT with an IPv6 host in brackets, got {text!r}")
        if not separator or not host or not (port.isascii() and port.isdigit()) or int(port) > _LAST_PORT:
            raise ValueError(f"expected HOST:PORT, got {text!r}")
        return cls(host, int(port))

    def __str__(self) -> str:
        """Return it as `parse` reads it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def reachable(self) -> "Address":
        """An address of this host that reaches this one: for `0.0.0.0` and `::`, the loopback."""
        try:
            wild = ipaddress.ip_address(self.host)
        except ValueError:
            return self
        if not wild.is_unspecified:
            return self
        return Address("127.0.0.1" if wild.version == 4 else "::1", self.port)


def listen(address: Address) -> tuple[socket.socket, Address]:
    """Listen on an address; return the socket, which the caller closes, and the address with its real port.

    Raises `CommandError` where the port is taken or the host is not one of this machine.
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
    """Return the socket that listens already under a descriptor, and the address with its real port."""
    listener = socket.socket(fileno=descriptor)
    listener.set_inheritable(False)
    return listener, Address(address.host, listener.getsockname()[1])


def _hint(taken: Address) -> str:
    """Return the end of the message of a port that is taken: the option that chooses another one."""
    port = taken.port + _NEXT_PORT if taken.port + _NEXT_PORT <= _LAST_PORT else taken.port - _NEXT_PORT
    option = f"--listen {Address(taken.host, port)}"
    return f'; `towpath up {option}` takes another port, and so does `make run ARGS="{option}"`'
