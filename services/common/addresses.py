"""Addresses of sockets."""

import ipaddress
from dataclasses import dataclass
from typing import Self

_LAST_PORT = 65535


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
