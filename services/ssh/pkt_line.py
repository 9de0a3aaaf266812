"""The pkt-lines of git: messages of bounded size, and their parts."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import Enum, auto

from services.ssh.descriptors import Input, Output, within
from services.ssh.errors import Disconnected, ProtocolError

MAX_DATA_BYTES = 65_516
"""The most bytes of data in one pkt-line."""

_HEAD_BYTES = 4
_HEAD = re.compile(rb"[0-9a-fA-F]{4}")
_MAX_ARGUMENTS = 100
_MAX_ARGUMENT_BYTES = 256 * 1024
_MAX_LINES = 10_000
_MAX_LINE_BYTES = 4 * 1024**2
_STALL_SECONDS = 120.0
_MIN_BYTES_PER_SECOND = 1_024


class Mark(Enum):
    """A pkt-line without data."""

    FLUSH = auto()
    DELIMITER = auto()


_MARKS = {0: Mark.FLUSH, 1: Mark.DELIMITER}


@dataclass
class Message:
    """A command, and its arguments by name."""

    command: str
    arguments: dict[str, str] = field(default_factory=dict)
    ended: bool = True
    """False if the delimiter was read, and lines or data follow."""


class Reader:
    """The pkt-lines that a client sends. Raises `ProtocolError` for anything else, and `Disconnected` at its end.

    A client may be silent for `idle_seconds` between two messages. `stall_seconds` are for the arguments of a message,
    for its lines, and for each pkt-line of its data, which comes at 1,024 bytes a second or faster.
    """

    def __init__(self, source: Input, idle_seconds: float, stall_seconds: float = _STALL_SECONDS) -> None:
        self._source = source
        self._idle_seconds = idle_seconds
        self._stall_seconds = stall_seconds

    async def _next(self) -> bytes | Mark:
        head = await self._source.read_exactly(_HEAD_BYTES)
        if not _HEAD.fullmatch(head):
            raise ProtocolError("expected the length of a pkt-line, four hexadecimal digits")
        length = int(head, 16)
        if length in _MARKS:
            return _MARKS[length]
        if not _HEAD_BYTES <= length <= _HEAD_BYTES + MAX_DATA_BYTES:
            raise ProtocolError(f"expected a pkt-line of 4 to {_HEAD_BYTES + MAX_DATA_BYTES} bytes, got {length}")
        return await self._source.read_exactly(length - _HEAD_BYTES)

    async def message(self) -> Message:
        """Return the next command with its arguments."""
        async with within(self._idle_seconds):
            await self._source.wait()
        async with within(self._stall_seconds):
            return await self._message()

    async def _message(self) -> Message:
        first = await self._next()
        if isinstance(first, Mark):
            raise ProtocolError("expected a command")
        message = Message(_text(first))
        size = len(first)
        for _ in range(_MAX_ARGUMENTS + 1):
            line = await self._next()
            if isinstance(line, Mark):
                message.ended = line is Mark.FLUSH
                return message
            size = _grown(size, line, _MAX_ARGUMENT_BYTES)
            name, _, value = _text(line).partition("=")
            message.arguments[name] = value
        raise ProtocolError(f"expected at most {_MAX_ARGUMENTS} arguments")

    async def lines(self) -> list[str]:
        """Return the lines up to the end of the message."""
        async with within(self._stall_seconds):
            return await self._lines()

    async def _lines(self) -> list[str]:
        lines: list[str] = []
        size = 0
        while (line := await self._next()) is not Mark.FLUSH:
            if isinstance(line, Mark) or len(lines) == _MAX_LINES:
                raise ProtocolError(f"expected at most {_MAX_LINES} lines, and then a flush")
            size = _grown(size, line, _MAX_LINE_BYTES)
            lines.append(_text(line))
        return lines

    async def data(self) -> AsyncIterator[bytes]:
        """Yield the data up to the end of the message."""
        loop = asyncio.get_running_loop()
        waited, came = 0.0, 0
        while True:
            since = loop.time()
            async with within(self._stall_seconds):
                part = await self._next()
            if part is Mark.FLUSH:
                return
            if isinstance(part, Mark):
                raise ProtocolError("expected data, and then a flush")
            # As in uploads over HTTP, only the time that the client takes counts.
            waited, came = waited + loop.time() - since, came + len(part)
            if waited >= self._stall_seconds:
                if came < _MIN_BYTES_PER_SECOND * waited:
                    raise Disconnected(f"expected at least {_MIN_BYTES_PER_SECOND} bytes a second")
                waited, came = 0.0, 0
            yield part


def _grown(size: int, line: bytes, max_bytes: int) -> int:
    if size + len(line) > max_bytes:
        raise ProtocolError(f"expected a message of at most {max_bytes} bytes")
    return size + len(line)


def _text(line: bytes) -> str:
    try:
        return line.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ProtocolError("expected a line in UTF-8") from error


def encode(data: bytes) -> bytes:
    """Return the pkt-lines of data."""
    parts = (data[begin : begin + MAX_DATA_BYTES] for begin in range(0, len(data), MAX_DATA_BYTES))
    return b"".join(b"%04x%b" % (_HEAD_BYTES + len(part), part) for part in parts)


def _encode_line(line: str) -> bytes:
    # A line break would end the line, and a longer line could not be sent.
    text = " ".join(line.split("\n")).encode(errors="replace")[: MAX_DATA_BYTES - 1]
    return encode(text + b"\n")


class Writer:
    """The pkt-lines that a client gets."""

    def __init__(self, sink: Output) -> None:
        self._sink = sink

    async def advertise(self, *capabilities: str) -> None:
        """Send the capabilities."""
        await self._sink.write(b"".join(map(_encode_line, capabilities)) + b"0000")

    async def answer(self, status: int, *arguments: str, lines: list[str] | None = None) -> None:
        """Send a whole answer; with `lines` they follow the delimiter."""
        rest = b"" if lines is None else b"0001" + b"".join(map(_encode_line, lines))
        head = b"".join(map(_encode_line, (f"status {status}", *arguments)))
        await self._sink.write(head + rest + b"0000")

    async def begin_data(self, status: int, *arguments: str) -> None:
        """Send what precedes data."""
        await self._sink.write(b"".join(map(_encode_line, (f"status {status}", *arguments))) + b"0001")

    async def data(self, data: bytes) -> None:
        """Send some data."""
        await self._sink.write(encode(data))

    async def end_data(self) -> None:
        """End the data."""
        await self._sink.write(b"0000")
