"""Parts of files in an answer's body, sent by the kernel: the ASGI extension "Zero Copy Send"."""

import asyncio
import errno
import os
import socket
from contextlib import suppress
from dataclasses import dataclass

from starlette.types import Message
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from services.common.concurrency.uncancellable import run_in_thread

FILE_MESSAGE = "http.response.zerocopysend"
"""The type of a message, and the name of the extension in the scope."""

_WAITING_BYTES = 16 * 1024
_READ_AHEAD_BYTES = 4 * 1024 * 1024
# Errors that only a socket raises, in addition to those that Python maps to ConnectionError.
_LOST = (errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)


@dataclass(frozen=True)
class FilePart:
    """Bytes of an open file, by its descriptor, for the kernel to send."""

    file: int
    offset: int
    count: int


class FileSender:
    """Sends parts of files on one unencrypted connection, in turn with the bytes of its transport."""

    def __init__(self, transport: asyncio.Transport, flow: FlowControl) -> None:
        self._transport = transport
        self._flow = flow

    async def send(self, cycle: RequestResponseCycle, message: Message) -> None:
        """Send the part of a file that a message names, or less of it where the connection is lost.

        The message must have `offset` and `count`. A client that is gone is no error, because the server learns of it.
        Raises RuntimeError where the parts exceed the answer's Content-Length, EOFError where the file ends early,
        OSError where it cannot be read.
        """
        file, offset, count = message["file"], message["offset"], message["count"]
        if count > cycle.expected_content_length:
            raise RuntimeError("the answer is longer than its Content-Length")
        try:
            await self._send(file, offset, offset + count)
        except OSError as error:
            if not (isinstance(error, ConnectionError) or error.errno in _LOST or self._transport.is_closing()):
                raise
            # A transport that does not read may not have noticed the loss.
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
                # Only the transport can wait for the socket, so the next few bytes go through the transport.
                data = await _read(file, offset, min(_WAITING_BYTES, end - offset))
                # A connection that was lost meanwhile takes no more bytes.
                if self._transport.is_closing():
                    return
                self._transport.write(data)
                sent = len(data)
            if not sent:
                raise EOFError(f"the file ends at {offset}, expected {end} bytes")
            offset += sent

    async def _flush(self) -> None:
        """Wait until the transport has handed all its bytes to the kernel, or the connection is lost."""
        if not self._transport.is_closing() and self._transport.get_write_buffer_size():
            self._transport.set_write_buffer_limits(high=0)
            try:
                await self._flow.drain()
            finally:
                if not self._transport.is_closing():
                    self._transport.set_write_buffer_limits()

    async def _send_some(self, file: int, offset: int, count: int) -> int:
        """Send as many bytes as the socket takes at once; use a thread where the disk has to be read."""
        connection = self._transport.get_extra_info("socket")
        if _is_cached(file, offset) and _is_cached(file, offset + count - 1):
            return _send_file(connection, file, offset, count)
        # Duplicate the descriptor: the transport's may belong to another client by the time that the thread runs.
        with connection.dup() as duplicate:
            return await run_in_thread(_read_and_send, duplicate, file, offset, count)


def _is_cached(file: int, offset: int) -> bool:
    """Return whether this byte is in the page cache; False where the file system cannot say, or the file ends."""
    with suppress(OSError):
        return os.preadv(file, [bytearray(1)], offset, os.RWF_NOWAIT) == 1
    return False


async def _read(file: int, offset: int, count: int) -> bytes:
    """Return up to `count` bytes of the file, only the cached bytes if there are any; none at the file's end."""
    data = bytearray(count)
    with suppress(OSError):
        if got := os.preadv(file, [data], offset, os.RWF_NOWAIT):
            return bytes(data[:got])
    return await run_in_thread(os.pread, file, count, offset)


def _read_and_send(connection: socket.socket, file: int, offset: int, count: int) -> int:
    # Let the disk read ahead while this part is sent.
    os.posix_fadvise(file, offset, count + _READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
    return _send_file(connection, file, offset, count)


def _send_file(connection: socket.socket, file: int, offset: int, count: int) -> int:
    """Send as many bytes as the socket takes, in full packets: by default the kernel sends one for every few pages."""
    if connection.family == socket.AF_UNIX:
        # A unix socket has no packets, and refuses the option.
        return os.sendfile(connection.fileno(), file, offset, count)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    try:
        return os.sendfile(connection.fileno(), file, offset, count)
    finally:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
