"""A way to an object store that fails as such ways do: it stops, slows down, breaks off, or answers itself."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.support.streams import LoopbackServer

_PIECE_BYTES = 16 * 1024


class StoreProxy(LoopbackServer):
    """A proxy before an HTTP server on a port of this host; its fields may be changed at any time."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port
        self.address = ""
        # What is answered in place of the server, whatever is asked: a status and a body.
        self.answer: tuple[int, bytes] | None = None
        # With this, only requests whose first line has a match are answered so.
        self.answer_only: re.Pattern[str] = re.compile("")
        self.bytes_per_second: float | None = None
        # Whether a bit of each body that goes to the server is turned.
        self.damaging = False
        # How many bytes the server may still say before the connection is reset, for all connections together.
        self.answer_bytes_left: int | None = None
        self.requests: list[str] = []
        self._flowing = asyncio.Event()

    def stop_flow(self) -> None:
        """Carry nothing on until `resume_flow`; connections stay open."""
        self._flowing.clear()

    def resume_flow(self) -> None:
        """Carry on."""
        self._flowing.set()

    async def start(self) -> str:
        """Listen."""
        self.resume_flow()
        self.address = await super().start()
        return self.address

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = None, None
        answers = None
        try:
            while head := await _head(reader):
                await self._flowing.wait()
                self.requests.append(head.split(b"\r\n", 1)[0].decode())
                if self.answer is not None and self.answer_only.search(self.requests[-1]):
                    await self._answer(head, reader, writer, *self.answer)
                    return
                if server_reader is None or server_writer is None:
                    server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.port)
                    self._writers.add(server_writer)
                    answers = asyncio.create_task(self._carry_answers(server_reader, writer))
                server_writer.write(head)
                await self._carry_body(reader, server_writer, _length(head))
        finally:
            if answers is not None:
                answers.cancel()
                with suppress(asyncio.CancelledError, OSError):
                    await answers
            if server_writer is not None:
                server_writer.close()

    async def _answer(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: int, body: bytes
    ) -> None:
        left = _length(head)
        while left:
            left -= len(await reader.read(min(left, 65536)) or bytes(left))
        if head.startswith(b"HEAD "):
            body = b""
        writer.write(
            f"HTTP/1.1 {status} Said\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        await writer.drain()

    async def _carry_body(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> None:
        while length:
            piece = await reader.read(min(length, _PIECE_BYTES))
            if not piece:
                raise ConnectionResetError
            length -= len(piece)
            if self.damaging:
                piece = bytes([piece[0] ^ 1]) + piece[1:]
            await self._carry(piece, writer)
        await writer.drain()

    async def _carry_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(_PIECE_BYTES):
                if self.answer_bytes_left is not None:
                    if self.answer_bytes_left < len(piece):
                        self.answer_bytes_left = None
                        writer.transport.abort()
                        return
                    self.answer_bytes_left -= len(piece)
                await self._carry(piece, writer)
        finally:
            writer.close()

    async def _carry(self, piece: bytes, writer: asyncio.StreamWriter) -> None:
        await self._flowing.wait()
        if self.bytes_per_second is not None:
            await asyncio.sleep(len(piece) / self.bytes_per_second)
        writer.write(piece)
        await writer.drain()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return int(line.split(b":", 1)[1])
    return 0


@asynccontextmanager
async def store_proxy(port: int) -> AsyncIterator[StoreProxy]:
    """Run one."""
    proxy = StoreProxy(port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
