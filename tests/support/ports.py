"""Ports of this host that nobody listens on."""

import random
import socket

# Below those that the kernel gives to connections: one that is free now is not taken by another test's client.
_PORTS = range(10_000, 32_000)
_MAX_TRIES = 1_000


def free_ports(count: int) -> list[int]:
    """Return so many different ones; for programs that cannot be given a listening socket."""
    drawn = random.SystemRandom().sample(_PORTS, _MAX_TRIES)
    found = [port for port, _ in zip(filter(_is_free, drawn), range(count), strict=False)]
    assert len(found) == count, "no ports are free"
    return found


def free_address() -> str:
    """Return HOST:PORT of one on loopback."""
    [port] = free_ports(1)
    return f"127.0.0.1:{port}"


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
