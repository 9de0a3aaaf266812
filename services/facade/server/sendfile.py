"""Parts of files as parts of an answer's body, sent by the kernel: ASGI's extension "Zero Copy Send"."""

import asyncio
import errno
import os
import socket
from contextlib import suppress

from starlette.types import Message
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from services.common.concurrency.uncancellable import run_in_thread

FILE_MESSAGE = "http.response.zerocopysend"
"""The type of a message, and the name of the extension in the scope."""

_WAITING_BYTES = 16 * 1024
_READ_AHEAD_BYTES = 4 * 1024 * 1024
# What only a socket says, beside what Python calls a ConnectionError.
_LOST = (errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)


class FileSender:
    """Sends parts of files on one connection, which is not encrypted, in turn with what its transport sends."""

    def __init__(self, transport: asyncio.Transport, flow: FlowControl) -> None:
        self._transport = transport
        self._flow = flow

    async def send(self, cycle: RequestResponseCycle, message: Message) -> None:
        """Send what a message of this type names, or less where the connection is lost; `offset` and `count` are given.

        A client that is gone is no error: the server hears of it. Parts end on the answer's Content-Length; more of
        them is a RuntimeError. Raises EOFError where the file ends earlier, OSError where it cannot be read.
        """
        file, offset, count = message["file"], message["offset"], message["count"]
        if count > cycle.expected_content_length:
            raise RuntimeError("the answer is longer than its Content-Length")
        try:
            await self._send(file, offset, offset + count)
        except OSError as error:
            if not (isinstance(error, ConnectionError) or error.errno in _LOST or self._transport.is_closing()):
                raise
            # The transport may not have heard of it, where it does not read.
            self._transport.abort()
        cycle.expected_content_length -= count
        if not message.get("more_body", False):
            await cycle.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, file: int, offset: int, end: int) -> None:
        while offset < end:
            await self._flush()
            if self._transport.is_closing():
                return
            try:
                sent = await self._send_some(file, offset, end - offset)
            except BlockingIOError:
                # Who may wait for the socket is the transport alone: the next few bytes are for it.
                data = await _read(file, offset, min(_WAITING_BYTES, end - offset))
                # What was lost meanwhile takes nothing any more.
                if self._transport.is_closing():
                    return
                self._transport.write(data)
                sent = len(data)
            if not sent:
                raise EOFError(f"the file ends at {offset}, expected {end} bytes")
            offset += sent

    async def _flush(self) -> None:
        """Return when the transport has handed to the kernel all that it was given, or the connection is lost."""
        if not self._transport.is_closing() and self._transport.get_write_buffer_size():
            self._transport.set_write_buffer_limits(high=0)
            try:
                await self._flow.drain()
            finally:
                if not self._transport.is_closing():
                    self._transport.set_write_buffer_limits()

    async def _send_some(self, file: int, offset: int, count: int) -> int:
        """Send what the socket takes at once; in a thread where the disk has to be read for it."""
        connection = self._transport.get_extra_info("socket")
        if _is_cached(file, offset) and _is_cached(file, offset + count - 1):
            return _send_file(connection, file, offset, count)
        # The transport's own number may be another client's by the time that the thread gets to it.
        with connection.dup() as duplicate:
            return await run_in_thread(_read_and_send, duplicate, file, offset, count)


def _is_cached(file: int, offset: int) -> bool:
    """Tell whether the kernel has this byte in memory; not where the file system cannot tell, or the file ends."""
    with suppress(OSError):
        return os.preadv(file, [bytearray(1)], offset, os.RWF_NOWAIT) == 1
    return False


async def _read(file: int, offset: int, count: int) -> bytes:
    """Return bytes of the file, as many as there are at once; none at its end."""
    data = bytearray(count)
    with suppress(OSError):
        if got := os.preadv(file, [data], offset, os.RWF_NOWAIT):
            return bytes(data[:got])
    return await run_in_thread(os.pread, file, count, offset)


def _read_and_send(connection: socket.socket, file: int, offset: int, count: int) -> int:
    # The disk goes on reading while this part is sent.
    os.posix_fadvise(file, offset, count + _READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
    return _send_file(connection, file, offset, count)


def _send_file(connection: socket.socket, file: int, offset: int, count: int) -> int:
    """Send what the socket takes, in full packets: the kernel would send one for every few pages of the file."""
    if connection.family == socket.AF_UNIX:
        # It knows no packets, and refuses the option.
        return os.sendfile(connection.fileno(), file, offset, count)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    try:
        return os.sendfile(connection.fileno(), file, offset, count)
    finally:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
