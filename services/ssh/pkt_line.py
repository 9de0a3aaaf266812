"""The pkt-lines of git: messages of bounded size, and their parts."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import Enum, auto

from services.ssh.descriptors import Input, Output
from services.ssh.errors import ProtocolError

MAX_DATA_BYTES = 65_516
"""The most bytes of data in one pkt-line."""

_HEAD_BYTES = 4
_HEAD = re.compile(rb"[0-9a-fA-F]{4}")
_MAX_LINES = 10_000
_MAX_MESSAGE_BYTES = 4 * 1024**2
_STALL_SECONDS = 120.0


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
    """The pkt-lines that a client sends. Raises `ProtocolError` for anything else, and `Disconnected` at its end."""

    def __init__(self, source: Input, idle_seconds: float) -> None:
        self._source = source
        self._idle_seconds = idle_seconds

    async def _next(self, seconds: float = _STALL_SECONDS) -> bytes | Mark:
        head = await self._source.read_exactly(_HEAD_BYTES, seconds)
        if not _HEAD.fullmatch(head):
            raise ProtocolError("expected the length of a pkt-line, four hexadecimal digits")
        length = int(head, 16)
        if length in _MARKS:
            return _MARKS[length]
        if not _HEAD_BYTES <= length <= _HEAD_BYTES + MAX_DATA_BYTES:
            raise ProtocolError(f"expected a pkt-line of 4 to {_HEAD_BYTES + MAX_DATA_BYTES} bytes, got {length}")
        return await self._source.read_exactly(length - _HEAD_BYTES, _STALL_SECONDS)

    async def message(self) -> Message:
        """Return the next command with its arguments."""
        first = await self._next(self._idle_seconds)
        if isinstance(first, Mark):
            raise ProtocolError("expected a command")
        message = Message(_text(first))
        size = len(first)
        for _ in range(_MAX_LINES):
            line = await self._next()
            if isinstance(line, Mark):
                message.ended = line is Mark.FLUSH
                return message
            size = _grown(size, line)
            name, _, value = _text(line).partition("=")
            message.arguments[name] = value
        raise ProtocolError(f"expected at most {_MAX_LINES} arguments")

    async def lines(self) -> list[str]:
        """Return the lines up to the end of the message."""
        lines: list[str] = []
        size = 0
        while (line := await self._next()) is not Mark.FLUSH:
            if isinstance(line, Mark) or len(lines) == _MAX_LINES:
                raise ProtocolError(f"expected at most {_MAX_LINES} lines, and then a flush")
            size = _grown(size, line)
            lines.append(_text(line))
        return lines

    async def data(self) -> AsyncIterator[bytes]:
        """Yield the data up to the end of the message."""
        while (part := await self._next()) is not Mark.FLUSH:
            if isinstance(part, Mark):
                raise ProtocolError("expected data, and then a flush")
            yield part


def _grown(size: int, line: bytes) -> int:
    if size + len(line) > _MAX_MESSAGE_BYTES:
        raise ProtocolError(f"expected a message of at most {_MAX_MESSAGE_BYTES} bytes")
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
