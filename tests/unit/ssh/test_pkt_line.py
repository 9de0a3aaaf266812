"""The pkt-lines of a client, right and wrong ones."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from services.common.lifecycle import running
from services.ssh.descriptors import Input, Output
from services.ssh.errors import Disconnected, ProtocolError
from services.ssh.pkt_line import MAX_DATA_BYTES, Message, Reader, Writer, encode

_SECONDS = 30.0


@contextmanager
def _reading(data: bytes) -> Iterator[Reader]:
    """Give a reader of input that has these bytes and then ends; the kernel keeps them in a file of memory."""
    descriptor = os.memfd_create("input")
    try:
        os.write(descriptor, data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield Reader(Input(descriptor), _SECONDS)
    finally:
        os.close(descriptor)


async def test_a_message_has_a_command_and_arguments() -> None:
    """With a line break at the end of each line or without, and empty values."""
    data = b"000abatch\n" + encode(b"refname=refs/heads/a=b") + encode(b"transfer=\n") + b"0001" + encode(b"x 1\n")
    with _reading(data + b"0000" + b"0009quit\n0000") as reader:
        message = await reader.message()
        assert message == Message("batch", {"refname": "refs/heads/a=b", "transfer": ""}, ended=False)
        assert await reader.lines() == ["x 1"]
        assert await reader.message() == Message("quit")
        with pytest.raises(Disconnected):
            await reader.message()


async def test_data_of_any_bytes_comes_in_parts() -> None:
    """The largest pkt-line, too, and an empty one."""
    data = os.urandom(3 * MAX_DATA_BYTES + 1)
    with _reading(encode(data) + b"0004" + b"0000") as reader:
        assert b"".join([part async for part in reader.data()]) == data


@pytest.mark.parametrize(
    "data",
    [
        b"fff1" + b"x" * 0xFFED,
        b"ffff" + b"x" * 0xFFFB,
        b"0002",
        b"0003",
        b"+00ax",
        b" 00a",
        b"0x0a",
        b"-001",
        "٠٠٠٨".encode()[:4] + b"quit",
        b"GET / HTTP/1.1\r\n\r\n",
        b"0000",
        b"0001",
        encode(b"\xff\xfe") + b"0000",
        encode(b"lock") + encode(b"path=\xc3") + b"0000",
        encode(b"lock") + encode(b"a=b") * 101 + b"0000",
        encode(b"lock") + encode(b"path=" + b"x" * 65_000) * 5 + b"0000",
    ],
    ids=lambda data: repr(data[:24]),
)
async def test_anything_else_is_no_message(data: bytes) -> None:
    """A message is bounded in the length of its lines, in their number, and in all."""
    with _reading(data) as reader, pytest.raises(ProtocolError):
        await reader.message()


@pytest.mark.parametrize("data", [b"", b"00", b"0009qui", encode(b"lock"), encode(b"lock") + b"000"], ids=repr)
async def test_a_cut_message_is_a_client_that_is_gone(data: bytes) -> None:
    """Nothing is done of half a message."""
    with _reading(data) as reader, pytest.raises(Disconnected):
        await reader.message()


@pytest.mark.parametrize(
    "read",
    [lambda reader: reader.lines(), lambda reader: _drained(reader)],
    ids=["lines", "data"],
)
async def test_a_delimiter_within_lines_or_data_is_refused(read: Callable[[Reader], object]) -> None:
    """There is one in a message, before them."""
    with _reading(encode(b"x") + b"0001" + b"0000") as reader, pytest.raises(ProtocolError):
        await read(reader)  # type: ignore[misc] # both return awaitables


async def _drained(reader: Reader) -> None:
    async for _ in reader.data():
        pass


async def test_too_many_lines_are_refused() -> None:
    """A batch has at most 10,000."""
    with _reading(encode(b"x 1\n") * 10_001 + b"0000") as reader, pytest.raises(ProtocolError):
        await reader.lines()


async def test_an_answer_is_one_that_clients_read(pipe: tuple[int, int]) -> None:
    """A message with line breaks stays one line, and one that is too long is cut."""
    reading, writing = pipe
    writer = Writer(Output(writing, _SECONDS))
    await writer.advertise("version=1", "locking")
    await writer.answer(201, "id=1")
    await writer.answer(404, lines=["two\nlines"])
    await writer.begin_data(200, "size=3")
    await writer.data(b"abc")
    await writer.end_data()
    assert os.read(reading, 65_536) == (
        b"000eversion=1\n000clocking\n0000"
        b"000fstatus 201\n0009id=1\n0000"
        b"000fstatus 404\n0001000etwo lines\n0000"
        b"000fstatus 200\n000bsize=3\n00010007abc0000"
    )


async def test_a_client_that_reads_nothing_is_given_up(pipe: tuple[int, int]) -> None:
    """A full pipe is waited for only so long."""
    with pytest.raises(Disconnected, match="silent"):
        await Output(pipe[1], 0.05).write(bytes(1_000_000))


async def test_a_client_that_sends_nothing_is_given_up(pipe: tuple[int, int]) -> None:
    """An idle session ends."""
    with pytest.raises(Disconnected, match="silent"):
        await Reader(Input(pipe[0]), 0.05).message()


async def _drip(writing: int, piece: bytes) -> None:
    """Send the piece again and again, so that a reader is never without something for long."""
    while True:
        os.write(writing, piece)
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("begin", "piece", "read"),
    [
        (b"0", b"", lambda reader: reader.message()),
        (encode(b"lock"), b"0004", lambda reader: reader.message()),
        (b"", b"0004", lambda reader: reader.lines()),
        (b"fff0", b"x", lambda reader: _drained(reader)),
        (b"", b"0004", lambda reader: _drained(reader)),
    ],
    ids=["head", "arguments", "lines", "line", "data"],
)
async def test_a_client_that_drips_is_given_up(
    begin: bytes, piece: bytes, read: Callable[[Reader], Awaitable[object]], pipe: tuple[int, int]
) -> None:
    """A message and each piece of data have a time of their own, however often some of it comes."""
    reading, writing = pipe
    os.write(writing, begin)
    async with running(_drip(writing, piece)), asyncio.timeout(_SECONDS):
        with pytest.raises(Disconnected):
            await read(Reader(Input(reading), _SECONDS, 0.05))


async def test_a_fast_client_leaves_others_their_turn() -> None:
    """Empty pkt-lines are read as fast as they come, and the loop turns meanwhile."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    with _reading(b"0004" * 50_000 + b"0000") as reader:
        async with running(other()):
            await _drained(reader)
    assert turns > 100


async def test_a_client_that_reads_slowly_is_given_up(pipe: tuple[int, int]) -> None:
    """Each part that it reads does not buy it the whole time again."""
    reading, writing = pipe

    async def sip() -> None:
        while True:
            os.read(reading, 4096)
            await asyncio.sleep(0.005)

    async with running(sip()):
        with pytest.raises(Disconnected, match="too slow"):
            await Output(writing, 0.1).write(bytes(50_000_000))
