"""Parts of files as parts of an answer's body, sent by the kernel: ASGI's extension "Zero Copy Send"."""

import asyncio
import os
from contextlib import suppress

from starlette.types import Message
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from services.common.undivided import in_thread

FILE_MESSAGE = "http.response.zerocopysend"
"""The type of a message, and the name of the extension in the scope."""

_READ_AHEAD_BYTES = 4 * 1024 * 1024


class FileSender:
    """Sends parts of files on one connection, which is not encrypted; `wake` tells it that the connection is lost.

    The transport has nothing left to send while it does so. It writes to a duplicate of the transport's socket: the
    number of that one may already be another client's by the time that a thread gets to it.
    """

    def __init__(self, transport: asyncio.Transport, flow: FlowControl) -> None:
        self._transport = transport
        self._flow = flow
        self._waiter: asyncio.Future[None] | None = None

    async def send(self, cycle: RequestResponseCycle, message: Message) -> None:
        """Send what a message of this type names, or less where the connection is lost; `offset` and `count` are given.

        Parts end on the answer's Content-Length: more of them is a RuntimeError. Raises EOFError where the file ends
        earlier, OSError where it cannot be read.
        """
        file, offset, count = message["file"], message["offset"], message["count"]
        if count > cycle.expected_content_length:
            raise RuntimeError("the answer is longer than its Content-Length")
        # A client that is as fast as we are, or is gone, would keep all others waiting.
        await asyncio.sleep(0)
        await self._flush()
        if self._transport.is_closing():
            return
        socket = os.dup(self._transport.get_extra_info("socket").fileno())
        try:
            await self._send(socket, file, offset, offset + count)
        except ConnectionError:
            # The transport may not have heard of it, where it does not read.
            self._transport.abort()
        finally:
            os.close(socket)
        cycle.expected_content_length -= count
        if not message.get("more_body", False):
            await cycle.send({"type": "http.response.body", "body": b"", "more_body": False})

    def wake(self) -> None:
        """End the waiting for a client that is gone."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _flush(self) -> None:
        """Return when the transport has handed to the kernel all that it was given, or the connection is lost."""
        if self._transport.get_write_buffer_size():
            self._transport.set_write_buffer_limits(high=0)
            try:
                await self._flow.drain()
            finally:
                self._transport.set_write_buffer_limits()

    async def _send(self, socket: int, file: int, offset: int, end: int) -> None:
        while offset < end and not self._transport.is_closing():
            try:
                sent = await _send_some(socket, file, offset, end - offset)
            except BlockingIOError:
                await self._writable(socket)
                continue
            if not sent:
                raise EOFError(f"the file ends at {offset}, expected {end} bytes")
            offset += sent

    async def _writable(self, socket: int) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        loop.add_writer(socket, self.wake)
        try:
            await self._waiter
        finally:
            loop.remove_writer(socket)


async def _send_some(socket: int, file: int, offset: int, count: int) -> int:
    """Send what the socket takes at once; in a thread where the disk has to be read for it."""
    if _is_cached(file, offset) and _is_cached(file, offset + count - 1):
        return os.sendfile(socket, file, offset, count)
    return await in_thread(_read_and_send, socket, file, offset, count)


def _is_cached(file: int, offset: int) -> bool:
    """Tell whether the kernel has this byte in memory; not where the file system cannot tell, or the file ends."""
    with suppress(OSError):
        return os.preadv(file, [bytearray(1)], offset, os.RWF_NOWAIT) == 1
    return False


def _read_and_send(socket: int, file: int, offset: int, count: int) -> int:
    # The disk goes on reading while this part is sent.
    os.posix_fadvise(file, offset, count + _READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
    return os.sendfile(socket, file, offset, count)
