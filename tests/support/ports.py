"""Ports of this host that nobody listens on."""

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Return so many different ones; for programs that cannot be given a listening socket."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [made.getsockname()[1] for made in sockets]
