"""WriteSharedObject: WriteObject, with the bytes in a file that caller and service share."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.rpc.options import CHUNK_BYTES, SHARED_BYTES
from tests.support.storage import RunningStorage, failure, oid_of, running_storage
from tests.support.waiting import STEP_SECONDS, until

NAME = "0" * 32
DATA = b"some bytes"

Call = grpc.aio.StreamStreamCall[pb.WriteSharedObjectRequest, pb.WriteSharedObjectResponse]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that is shared."""
    return tmp_path_factory.mktemp("memory")


@pytest.fixture
def memory(folder: Path) -> Iterator[Path]:
    """The folder that is shared, empty."""
    yield folder
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()


@pytest.fixture(scope="module")
async def storage(
    shared_database_url: SecretStr, tmp_path_factory: pytest.TempPathFactory, folder: Path
) -> AsyncIterator[RunningStorage]:
    """A storage service that shares the folder."""
    own = tmp_path_factory.mktemp("storage")
    async with running_storage(shared_database_url, own, shared_memory_path=folder) as running:
        yield running


def header(content: bytes = DATA, **other: str | int) -> pb.WriteSharedObjectRequest:
    """Return the first message of an upload, with other fields than the object's where they are given."""
    fields: dict[str, Any] = {"repository_id": 1, "oid": oid_of(content), "size": len(content), **other}
    name = fields.pop("file", NAME)
    described = pb.WriteObjectRequest.Header(**fields)
    return pb.WriteSharedObjectRequest(header=pb.WriteSharedObjectRequest.Header(object=described, file=name))


def piece(offset: int, length: int) -> pb.WriteSharedObjectRequest:
    """Return another message of an upload."""
    return pb.WriteSharedObjectRequest(piece=pb.WriteSharedObjectRequest.Piece(offset=offset, length=length))


async def reply(call: Call) -> pb.WriteSharedObjectResponse:
    """Return the next answer."""
    answer = await call.read()
    assert isinstance(answer, pb.WriteSharedObjectResponse)
    return answer


async def write(storage: RunningStorage, file: Path, content: bytes, *, length: int) -> pb.Object:
    """Write an object through a file that has room for one piece, which is written over when it was answered."""
    call: Call = storage.stub.WriteSharedObject(timeout=STEP_SECONDS)
    file_descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        os.truncate(file_descriptor, length)
        await call.write(header(content))
        assert not (await reply(call)).HasField("object")
        # Who has it open needs no name.
        os.unlink(file)  # noqa: PTH108 - as with the other calls, no disk is waited for
        for start in range(0, len(content), length):
            part = content[start : start + length]
            os.pwrite(file_descriptor, part, 0)
            await call.write(piece(0, len(part)))
            assert not (await reply(call)).HasField("object")
            os.pwrite(file_descriptor, bytes(length), 0)
    finally:
        os.close(file_descriptor)
    await call.done_writing()
    written = (await reply(call)).object
    assert await call.read() is grpc.aio.EOF
    return written


@pytest.mark.parametrize(
    ("size", "length"),
    [(0, 1), (1, 1), (70_000, 65_536), (5 * CHUNK_BYTES + 1, CHUNK_BYTES), (3 * SHARED_BYTES, SHARED_BYTES)],
)
async def test_write_and_read(storage: RunningStorage, memory: Path, size: int, length: int) -> None:
    """The caller may write over the memory after an answer, so the answered bytes must be copied."""
    content = os.urandom(size)
    written = await write(storage, memory / NAME, content, length=length)
    assert (written.oid, written.size) == (oid_of(content), size)
    assert await storage.read(1, written.oid) == content
    assert storage.incoming() == []


async def refused(storage: RunningStorage, *messages: pb.WriteSharedObjectRequest, then_silent: bool = False) -> str:
    """Return the reason for which an upload is refused; see that nothing is left of it."""
    before = storage.files()

    async def send() -> AsyncIterator[pb.WriteSharedObjectRequest]:
        for message in messages:
            yield message
        if then_silent:
            await asyncio.Event().wait()

    async def read() -> None:
        async for _ in storage.stub.WriteSharedObject(send(), timeout=STEP_SECONDS):
            pass

    error = await failure(read())
    await until(lambda: set(storage.files()) <= set(before))
    return f"{error.status.name} {error.reason}"


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([header(oid=oid_of(b"other")), piece(0, len(DATA))], "INVALID_ARGUMENT HASH_MISMATCH"),
        ([header(), piece(0, len(DATA) - 1)], "INVALID_ARGUMENT SIZE_MISMATCH"),
        ([header(), piece(0, len(DATA)), piece(0, 1)], "INVALID_ARGUMENT SIZE_MISMATCH"),
        ([header(oid="x")], "INVALID_ARGUMENT INVALID_OID"),
        ([header(), header()], "INVALID_ARGUMENT MALFORMED_STREAM"),
        ([piece(0, 1)], "INVALID_ARGUMENT MALFORMED_STREAM"),
        ([header(), pb.WriteSharedObjectRequest()], "INVALID_ARGUMENT MALFORMED_STREAM"),
        ([header(), piece(-1, 1)], "INVALID_ARGUMENT MALFORMED_STREAM"),
        ([header(), piece(0, 0)], "INVALID_ARGUMENT MALFORMED_STREAM"),
        ([header(), piece(0, -1)], "INVALID_ARGUMENT MALFORMED_STREAM"),
        ([header(), piece(0, SHARED_BYTES + 1)], "INVALID_ARGUMENT MALFORMED_STREAM"),
        ([header(), piece(1, len(DATA))], "INVALID_ARGUMENT MALFORMED_STREAM"),
        ([header(), piece(2**63 - 1, 1)], "INVALID_ARGUMENT MALFORMED_STREAM"),
        ([header(file="1" * 32)], "FAILED_PRECONDITION MEMORY_NOT_SHARED"),
        ([header(file="../memory/" + NAME)], "FAILED_PRECONDITION MEMORY_NOT_SHARED"),
        ([header(file="")], "FAILED_PRECONDITION MEMORY_NOT_SHARED"),
    ],
)
async def test_refused(
    storage: RunningStorage, memory: Path, messages: list[pb.WriteSharedObjectRequest], reason: str
) -> None:
    """A refused upload must leave nothing."""
    (memory / NAME).write_bytes(DATA)
    assert await refused(storage, *messages) == reason


async def test_silence_is_refused(database_url: SecretStr, tmp_path: Path, memory: Path) -> None:
    """A caller that says nothing for longer than the bound is cut off."""
    (memory / NAME).write_bytes(DATA)
    messages = [header(), piece(0, 1)]
    async with running_storage(database_url, tmp_path, shared_memory_path=memory, storage_idle_seconds=0.3) as storage:
        assert await refused(storage, *messages, then_silent=True) == "DEADLINE_EXCEEDED DEADLINE_EXCEEDED"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path.parent / "other")])
async def test_only_files_are_shared(storage: RunningStorage, memory: Path, make: Callable[[Path], None]) -> None:
    """A folder, a pipe or a link to a file elsewhere must not be opened, because only files are shared."""
    (memory / "other").write_bytes(DATA)
    make(memory / NAME)
    assert await refused(storage, header()) == "FAILED_PRECONDITION MEMORY_NOT_SHARED"


async def test_a_file_that_shrinks(storage: RunningStorage, memory: Path) -> None:
    """It ends that upload, and not the service."""
    file = memory / NAME
    file.write_bytes(DATA)
    call: Call = storage.stub.WriteSharedObject(timeout=STEP_SECONDS)
    await call.write(header())
    await reply(call)
    os.truncate(file, 1)
    await call.write(piece(0, len(DATA)))
    error = await failure(call.read())
    assert error.reason == "MALFORMED_STREAM"
    assert await storage.read(1, await storage.write(1, DATA)) == DATA


async def test_without_a_folder(database_url: SecretStr, tmp_path: Path) -> None:
    """A service that shares no memory says so."""
    async with running_storage(database_url, tmp_path) as storage:
        assert await refused(storage, header()) == "FAILED_PRECONDITION MEMORY_NOT_SHARED"
