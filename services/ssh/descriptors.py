"""Asynchronous reading and writing of a client's descriptors.

The transports of asyncio take a socket that is both standard input and output for a closed one, and sshd may give one.
"""

import asyncio
import os
from collections.abc import Callable

from services.ssh.errors import Disconnected


async def _until_ready(
    add: Callable[[int, Callable[[], None]], object], remove: Callable[[int], object], descriptor: int, seconds: float
) -> None:
    ready = asyncio.get_running_loop().create_future()
    add(descriptor, lambda: None if ready.done() else ready.set_result(None))
    try:
        async with asyncio.timeout(seconds):
            await ready
    except TimeoutError as error:
        raise Disconnected("the client is silent") from error
    finally:
        remove(descriptor)


class Input:
    """A descriptor to read from, with a buffer."""

    _CHUNK_BYTES = 256 * 1024

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._position = 0

    async def read_exactly(self, count: int, seconds: float) -> bytes:
        """Return the next bytes. Raises `Disconnected` at the end of the input, and if `seconds` pass without any."""
        while len(self._buffer) - self._position < count:
            del self._buffer[: self._position]
            self._position = 0
            self._buffer += await self._read(seconds)
        begin, self._position = self._position, self._position + count
        return bytes(memoryview(self._buffer)[begin : self._position])

    async def _read(self, seconds: float) -> bytes:
        loop = asyncio.get_running_loop()
        while True:
            try:
                part = os.read(self._descriptor, self._CHUNK_BYTES)
            except BlockingIOError:
                await _until_ready(loop.add_reader, loop.remove_reader, self._descriptor, seconds)
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
        """Write all of it. Raises `Disconnected` if the client is gone, or reads nothing for the time."""
        loop = asyncio.get_running_loop()
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                await _until_ready(loop.add_writer, loop.remove_writer, self._descriptor, self._seconds)
            except OSError as error:
                raise Disconnected("the client is gone") from error
