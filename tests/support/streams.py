"""Asyncio's streams: their end, and a server that ends with all that it carries."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress


async def end(writers: Iterable[asyncio.StreamWriter]) -> None:
    """Give up these connections, and return when their sockets are closed.

    A writer that is merely closed keeps its socket for one more turn of the loop; where the loop ends before it,
    the socket is found open by whatever test runs when the garbage is collected.
    """
    writers = tuple(writers)
    for writer in writers:
        # One that was closed, and has nothing left to send, closes by itself; CPython fails at aborting some of those.
        if writer.transport.get_write_buffer_size() or not writer.is_closing():
            writer.transport.abort()
    for writer in writers:
        with suppress(OSError):
            await writer.wait_closed()


class LoopbackServer:
    """A server on a port of this host; what is derived from it serves one connection in `_serve`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen, and return the address."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """End it, and what it carries."""
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await end(self._writers)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert self._server is not None
        if not self._server.is_serving():
            # It came in the moment of `close`, which does not know of it.
            writer.transport.abort()
            return
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            # Cancelled by `close` only; asyncio would log a cancelled handler as a failure of its own.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError
