"""Addresses of sockets."""

import ipaddress
from dataclasses import dataclass
from typing import Self

_LAST_PORT = 65535


def is_loopback(host: str) -> bool:
    """Return whether a host, an address or a name, is always this host itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class Address:
    """A host and a port, as in `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`; port 0 is any free port."""

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
        """Return the address in the form that `parse` reads."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def reachable(self) -> "Address":
        """The address by which a client on this host connects to this one: the loopback for `0.0.0.0` and `::`."""
        try:
            wild = ipaddress.ip_address(self.host)
        except ValueError:
            return self
        if not wild.is_unspecified:
            return self
        return Address("127.0.0.1" if wild.version == 4 else "::1", self.port)
