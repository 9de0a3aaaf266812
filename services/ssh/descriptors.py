"""Asynchronous reading and writing of a client's descriptors.

The transports of asyncio take a socket that is both standard input and output for a closed one, and sshd may give one.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from services.ssh.errors import Disconnected


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Give a client this time for what happens in the context. Raises `Disconnected` when it is over."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Disconnected("the client is silent, or too slow") from error


async def _until_ready(
    add: Callable[[int, Callable[[], None]], object], remove: Callable[[int], object], descriptor: int
) -> None:
    ready = asyncio.get_running_loop().create_future()
    add(descriptor, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        remove(descriptor)


class Input:
    """A descriptor to read from, with a buffer. It waits without a limit: the deadline is the caller's."""

    _CHUNK_BYTES = 256 * 1024
    _READS_OF_ONE_TURN = 256

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._position = 0
        self._reads = 0

    async def wait(self) -> None:
        """Return when there is something to read. Raises `Disconnected` at the end of the input."""
        if self._position == len(self._buffer):
            await self._fill()

    async def read_exactly(self, count: int) -> bytes:
        """Return the next bytes. Raises `Disconnected` at the end of the input."""
        self._reads += 1
        if self._reads % self._READS_OF_ONE_TURN == 0:
            # A client that is faster than we are never makes us wait, and would leave other sessions no turn.
            await asyncio.sleep(0)
        while len(self._buffer) - self._position < count:
            await self._fill()
        begin, self._position = self._position, self._position + count
        return bytes(memoryview(self._buffer)[begin : self._position])

    async def _fill(self) -> None:
        del self._buffer[: self._position]
        self._position = 0
        self._buffer += await self._read()

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        while True:
            try:
                part = os.read(self._descriptor, self._CHUNK_BYTES)
            except BlockingIOError:
                await _until_ready(loop.add_reader, loop.remove_reader, self._descriptor)
                continue
            except OSError as error:
                raise Disconnected("the client is gone") from error
            if not part:
                raise Disconnected("the client has closed its input")
            return part


class Output:
    """A descriptor to write to."""

    def __init__(self, descriptor: int, seconds: float) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._seconds = seconds

    async def write(self, data: bytes) -> None:
        """Write all of it. Raises `Disconnected` if the client is gone, or does not read all of it in time."""
        loop = asyncio.get_running_loop()
        left = memoryview(data)
        async with within(self._seconds):
            while left:
                try:
                    left = left[os.write(self._descriptor, left) :]
                except BlockingIOError:
                    await _until_ready(loop.add_writer, loop.remove_writer, self._descriptor)
                except OSError as error:
                    raise Disconnected("the client is gone") from error
