"""How those who share a listening socket share its connections."""

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from services.facade.acceptor import Acceptor
from tests.support.waiting import STEP_SECONDS, until

ONE_CLIENT = 10
# Before one has some, it is chance who takes them.
ALMOST = ONE_CLIENT - 2 * 2


class Sharer:
    """One of those who share a socket, as a process of its own would: it has a descriptor of its own."""

    def __init__(self, listener: socket.socket) -> None:
        self.connections: set[asyncio.Transport] = set()
        self._listener = listener.dup()
        self._listener.setblocking(False)
        self._acceptor = Acceptor(self._listener, self.connections, lambda: _Greeting(self.connections), None)

    async def close(self) -> None:
        """Take no more, and end those that are open; to close it again changes nothing."""
        if self._listener.fileno() < 0:
            return
        self._acceptor.close()
        await self._acceptor.wait_closed()
        self._listener.close()
        for connection in self.connections:
            connection.abort()


class _Greeting(asyncio.Protocol):
    def __init__(self, connections: set[asyncio.Transport]) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._connections.add(transport)
        transport.write(b"hello")


class Shared:
    """A listening socket, and clients of it."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, count: int) -> None:
        """Open connections one after the other, each of which is greeted by one of those who share the socket."""
        for _ in range(count):
            reader, writer = await asyncio.open_connection(*self.listener.getsockname())
            self._writers.append(writer)
            async with asyncio.timeout(STEP_SECONDS):
                assert await reader.readexactly(5) == b"hello"

    async def close(self) -> None:
        """End all connections."""
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def sharers(shared: Shared, count: int) -> AsyncIterator[list[Sharer]]:
    """Let so many share the socket."""
    all_of_them = [Sharer(shared.listener) for _ in range(count)]
    try:
        yield all_of_them
    finally:
        for each in all_of_them:
            await each.close()


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    """A listening socket on which nobody waits yet."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Shared(listener)
        yield made
        await made.close()


async def test_connections_of_one_client_come_to_one(shared: Shared) -> None:
    """What it asks over them goes to storage together there."""
    async with sharers(shared, 2) as both:
        await shared.connect(ONE_CLIENT)
        assert max(len(each.connections) for each in both) >= ALMOST


async def test_the_next_client_comes_to_the_one_that_is_idle(shared: Shared) -> None:
    """Two clients are served by two processes."""
    async with sharers(shared, 2) as both:
        await shared.connect(2 * ONE_CLIENT)
        assert min(len(each.connections) for each in both) >= ALMOST


async def test_more_than_two_clients_have_are_taken(shared: Shared) -> None:
    """None waits for good, however many there are, and whoever takes it."""
    async with sharers(shared, 2) as both:
        await shared.connect(10 * ONE_CLIENT)
        assert sum(len(each.connections) for each in both) == 10 * ONE_CLIENT


async def test_one_alone_takes_all(shared: Shared) -> None:
    """Nobody else is there to leave them to."""
    async with sharers(shared, 1) as [alone]:
        await shared.connect(3 * ONE_CLIENT)
        assert len(alone.connections) == 3 * ONE_CLIENT


async def test_what_waits_in_the_socket_is_left_to_the_others(shared: Shared) -> None:
    """One that ends takes nothing with it."""
    async with sharers(shared, 2) as [first, second]:
        await first.close()
        await shared.connect(2 * ONE_CLIENT)
        assert len(second.connections) == 2 * ONE_CLIENT
        assert not first.connections


async def test_a_client_that_is_gone_again_harms_nobody(shared: Shared) -> None:
    """Connections that end before they are taken do not keep the next from it."""
    async with sharers(shared, 1) as [alone]:
        for _ in range(20):
            with socket.create_connection(shared.listener.getsockname()) as gone:
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        await shared.connect(1)
        await until(lambda: bool(alone.connections), "the next is taken")


async def test_too_many_open_files_are_waited_out(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """While no connection can be taken it waits in the socket, and is taken later."""
    monkeypatch.setattr("services.facade.acceptor._FAILED_SECONDS", 0.1)
    async with sharers(shared, 1) as [alone]:
        with socket.socket() as client:
            with no_more_files():
                client.connect(shared.listener.getsockname())
                await asyncio.sleep(0.3)
                assert not alone.connections
            await until(lambda: bool(alone.connections), "the connection is taken")
            assert client.recv(5) == b"hello"


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open no file during the block."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))
