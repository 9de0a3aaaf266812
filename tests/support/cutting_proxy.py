"""A way to a server that breaks off amid uploads, and counts what clients send."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from tests.support.streams import LoopbackServer

_PIECE_BYTES = 64 * 1024

OnCut = Callable[[], Awaitable[None]]


async def nothing() -> None:
    """Do nothing else at a cut."""


class CuttingProxy(LoopbackServer):
    """A proxy before servers, each `HOST:PORT`: from each cut on, its connections lead to the next of them.

    It cuts when clients have sent so many bytes in all; their connections are then reset. With `rate`, each connection
    carries at most so many bytes a second, as a line does; without, a busy server has megabytes before it in the
    buffers of its host, which end with it.
    """

    def __init__(
        self, targets: Sequence[str], cuts: Sequence[int], on_cut: OnCut = nothing, rate: int | None = None
    ) -> None:
        super().__init__()
        self._seconds_per_byte = 0.0 if rate is None else 1 / rate
        self._targets = targets
        self._cuts = sorted(cuts)
        self._on_cut = on_cut
        self._clients: set[asyncio.StreamWriter] = set()
        self.address = ""
        self.sent = 0
        """The number of bytes that clients have sent, the heads of their requests included."""
        self.cuts_made = 0

    async def start(self) -> str:
        """Listen."""
        self.address = await super().start()
        return self.address

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._targets[self.cuts_made % len(self._targets)].rpartition(":")
        server_reader, server_writer = await asyncio.open_connection(host, int(port))
        self._writers.add(server_writer)
        self._clients.add(writer)
        answers = asyncio.create_task(self._carry_answers(server_reader, writer))
        try:
            while piece := await reader.read(_PIECE_BYTES):
                self.sent += len(piece)
                server_writer.write(piece)
                await server_writer.drain()
                if self.cuts_made < len(self._cuts) and self.sent >= self._cuts[self.cuts_made]:
                    await self._cut()
                await asyncio.sleep(len(piece) * self._seconds_per_byte)
        finally:
            self._clients.discard(writer)
            # What was carried reaches the server, as with a proxy that ends in order.
            server_writer.close()
            answers.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await answers

    async def _cut(self) -> None:
        self.cuts_made += 1
        for writer in self._clients:
            writer.transport.abort()
        await self._on_cut()

    async def _carry_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(_PIECE_BYTES):
                writer.write(piece)
                await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def cutting_proxy(
    targets: Sequence[str], cuts: Sequence[int], on_cut: OnCut = nothing, rate: int | None = None
) -> AsyncIterator[CuttingProxy]:
    """Run one."""
    proxy = CuttingProxy(targets, cuts, on_cut, rate)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
