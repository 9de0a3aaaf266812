"""The socket that clients connect to. It outlives the facade, so that a restart of it only makes them wait."""

import ipaddress
import socket
from dataclasses import dataclass
from typing import Self

from services.cli.errors import CommandError

_BACKLOG = 1024


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
        if not separator or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
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
        raise CommandError(f"cannot listen on {address}: {reason}") from error
    return listener, Address(address.host, listener.getsockname()[1])


def inherit(descriptor: int, address: Address) -> tuple[socket.socket, Address]:
    """Return the socket that listens already under a descriptor, and the address with its real port."""
    listener = socket.socket(fileno=descriptor)
    listener.set_inheritable(False)
    return listener, Address(address.host, listener.getsockname()[1])
