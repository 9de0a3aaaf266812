"""A network between two processes that stops carrying what it is given, without a word to either of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.support.streams import LoopbackServer


class BlackHole(LoopbackServer):
    """A proxy on a port, which passes bytes on until it is cut."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._to_server = asyncio.Event()
        self._to_client = asyncio.Event()

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
        return await super().start()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.add(server_writer)
        async with asyncio.TaskGroup() as pumps:
            pumps.create_task(self._pump(reader, server_writer, self._to_server))
            pumps.create_task(self._pump(server_reader, writer, self._to_client))

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


@asynccontextmanager
async def black_hole(port: int) -> AsyncIterator[tuple[BlackHole, str]]:
    """Run one before a port of this host; yield it and its address."""
    hole = BlackHole(port)
    address = await hole.start()
    try:
        yield hole, address
    finally:
        await hole.close()
