"""The pkt-lines of a client, right and wrong ones."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

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
        encode(b"lock") + encode(b"a=b") * 10_001,
        encode(b"lock") + encode(b"path=" + b"x" * 65_000) * 70,
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


async def test_an_answer_is_one_that_clients_read() -> None:
    """A message with line breaks stays one line, and one that is too long is cut."""
    reading, writing = os.pipe()
    try:
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
    finally:
        os.close(reading)
        os.close(writing)


async def test_a_client_that_reads_nothing_is_given_up() -> None:
    """A full pipe is waited for only so long."""
    reading, writing = os.pipe()
    try:
        with pytest.raises(Disconnected, match="silent"):
            await Output(writing, 0.05).write(bytes(1_000_000))
    finally:
        os.close(reading)
        os.close(writing)


async def test_a_client_that_sends_nothing_is_given_up() -> None:
    """An idle session ends."""
    reading, writing = os.pipe()
    try:
        with pytest.raises(Disconnected, match="silent"):
            await Reader(Input(reading), 0.05).message()
    finally:
        os.close(reading)
        os.close(writing)
