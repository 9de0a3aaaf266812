"""A network between two processes that stops carrying what it is given, without a word to either of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.support import streams


class BlackHole:
    """A proxy on a port, which passes bytes on until it is cut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._to_server = asyncio.Event()
        self._to_client = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    def cut(self, *, answers_only: bool = False) -> None:
        """Pass nothing on, or only what goes to the server; the connections that stand now are dead for good."""
        self._to_client.clear()
        if not answers_only:
            self._to_server.clear()
        # Those that are made from now on wait for `mend`.
        self._to_server, self._to_client = asyncio.Event(), asyncio.Event()

    def mend(self) -> None:
        """Pass on what comes by new connections."""
        self._to_server.set()
        self._to_client.set()

    async def start(self) -> str:
        """Listen, pass everything on, and return the address."""
        self.mend()
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert self._server is not None
        if not self._server.is_serving():
            # It came in the moment of `stop`, which does not know of it.
            writer.transport.abort()
            return
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            # Cancelled by `stop` only; asyncio would log a cancelled handler as a failure of its own.
            with suppress(OSError, asyncio.CancelledError):
                server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
                self._writers.add(server_writer)
                async with asyncio.TaskGroup() as pumps:
                    pumps.create_task(self._pump(reader, server_writer, self._to_server))
                    pumps.create_task(self._pump(server_reader, writer, self._to_client))
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_open: asyncio.Event) -> None:
        # A connection that one end gives up is no news here.
        try:
            with suppress(OSError):
                while data := await reader.read(65536):
                    await is_open.wait()
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.close()

    async def stop(self) -> None:
        """End it, and what it carries."""
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await streams.end(self._writers)


@asynccontextmanager
async def black_hole(port: int) -> AsyncIterator[tuple[BlackHole, str]]:
    """Run one before a port of this host; yield it and its address."""
    hole = BlackHole(port)
    address = await hole.start()
    try:
        yield hole, address
    finally:
        await hole.stop()
