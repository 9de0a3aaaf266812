"""ReadObject: ranges, what is not there, and what is lost."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.rpc.options import CHUNK_BYTES
from tests.support.storage import RunningStorage, failure, oid_of
from tests.support.waiting import STEP_SECONDS, until

DATA = bytes(range(200))
OID = oid_of(DATA)


def request(
    oid: str = OID, *, repository_id: int = 1, offset: int = 0, length: int | None = None
) -> pb.ReadObjectRequest:
    """Return a request to read."""
    return pb.ReadObjectRequest(repository_id=repository_id, oid=oid, offset=offset, length=length)


async def responses(storage: RunningStorage, asked: pb.ReadObjectRequest) -> list[pb.ReadObjectResponse]:
    """Return all messages of an answer."""
    return [response async for response in storage.stub.ReadObject(asked, timeout=STEP_SECONDS)]


@pytest.mark.shared_storage
async def test_header_and_then_data(storage: RunningStorage) -> None:
    """The first message is the header, all others are data of at most 1 MiB."""
    content = os.urandom(2 * CHUNK_BYTES + 1)
    oid = await storage.write(1, content)
    first, *others = await responses(storage, request(oid))
    assert first.header.size == len(content)
    assert {other.WhichOneof("content") for other in others} == {"data"}
    assert max(len(other.data) for other in others) <= CHUNK_BYTES
    assert b"".join(other.data for other in others) == content


@pytest.mark.shared_storage
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(offset=st.integers(0, 200), length=st.none() | st.integers(0, 2**63 - 1) | st.integers(0, 250))
@example(offset=len(DATA), length=None)
@example(offset=len(DATA), length=5)
@example(offset=0, length=0)
async def test_trap_8_ranges(storage: RunningStorage, offset: int, length: int | None) -> None:
    """A range gives its bytes and no others, which may be none, and the header the whole size (trap-8)."""
    await storage.write(1, DATA)
    first, *others = await responses(storage, request(offset=offset, length=length))
    assert first.header.size == len(DATA)
    expected = DATA[offset:] if length is None else DATA[offset : offset + length]
    assert b"".join(other.data for other in others) == expected
    assert all(other.data for other in others)


@pytest.mark.shared_storage
async def test_offset_beyond_the_end(storage: RunningStorage) -> None:
    """Beyond the end is OUT_OF_RANGE, and tells the size."""
    await storage.write(1, DATA)
    for offset in (len(DATA) + 1, 2**63 - 1):
        error = await failure(responses(storage, request(offset=offset)))
        assert (error.status.name, error.reason) == ("OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE")
        assert error.metadata == {"size": str(len(DATA))}


@pytest.mark.shared_storage
@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (request(offset=-1), "INVALID_FIELD"),
        (request(length=-1), "INVALID_FIELD"),
        (request(repository_id=-1), "INVALID_FIELD"),
        (request("../../../etc/passwd"), "INVALID_OID"),
        (request(OID.upper()), "INVALID_OID"),
    ],
)
async def test_malformed_requests(storage: RunningStorage, asked: pb.ReadObjectRequest, reason: str) -> None:
    """Malformed fields are INVALID_ARGUMENT (trap-28)."""
    error = await failure(responses(storage, asked))
    assert (error.status.name, error.reason) == ("INVALID_ARGUMENT", reason)


async def test_unknown_object(storage: RunningStorage) -> None:
    """An object of another repository must look like an unknown one, and the service lives on (trap-27)."""
    await storage.write(2, DATA)
    for _ in range(3):
        error = await failure(responses(storage, request()))
        assert (error.status.name, error.reason) == ("NOT_FOUND", "OBJECT_NOT_FOUND")
    assert await storage.read(2, OID) == DATA


async def test_removed_object(storage: RunningStorage) -> None:
    """A client must learn that an object was removed, and the reason, even if it is the longest possible."""
    await storage.write(1, DATA)
    await storage.delete(1, OID, reason="Ж" * 1000)
    error = await failure(responses(storage, request()))
    assert (error.status.name, error.reason) == ("FAILED_PRECONDITION", "OBJECT_REMOVED")
    assert error.metadata["removal_reason"] == "Ж" * 200 + "…"


async def test_file_that_ends_while_it_is_read(storage: RunningStorage) -> None:
    """A file that is cut while it is read makes the stream fail: it never just ends early."""
    content = os.urandom(40 * CHUNK_BYTES)
    oid = await storage.write(1, content)

    async def read() -> None:
        async for _response in storage.stub.ReadObject(request(oid), timeout=STEP_SECONDS):
            os.truncate(storage.path(oid), CHUNK_BYTES)

    error = await failure(read())
    assert error.reason == "OBJECT_DAMAGED"


async def test_object_deleted_while_it_is_read(storage: RunningStorage) -> None:
    """A reader that has begun gets all bytes, also when the object is removed meanwhile."""
    content = os.urandom(40 * CHUNK_BYTES)
    oid = await storage.write(1, content)
    stream = aiter(storage.stub.ReadObject(request(oid), timeout=STEP_SECONDS))
    assert (await anext(stream)).header.size == len(content)
    await storage.delete(1, oid)
    await storage.purge(1, oid)
    await until(lambda: storage.files() == [])
    assert b"".join([response.data async for response in stream]) == content


async def test_file_is_closed_when_the_reader_goes_away(storage: RunningStorage) -> None:
    """The reader's going away closes the file."""
    oid = await storage.write(1, os.urandom(40 * CHUNK_BYTES))
    path = storage.path(oid)
    call = storage.stub.ReadObject(request(oid), timeout=STEP_SECONDS)
    await call.read()
    await until(lambda: is_open(path))
    call.cancel()
    await until(lambda: not is_open(path))


async def test_trap_9_a_reader_that_waits_holds_up_the_service(storage: RunningStorage) -> None:
    """Of an object that nobody takes further, only a few pieces are read ahead (trap-9)."""
    oid = await storage.write(1, os.urandom(64 * CHUNK_BYTES))
    call = storage.stub.ReadObject(request(oid), timeout=STEP_SECONDS)
    await call.read()
    await until(lambda: is_open(storage.path(oid)))
    assert await storage.statuses(1, oid) == [pb.OBJECT_STATUS_PRESENT]
    assert (await storage.usage(1)).bytes_out_today < 32 * CHUNK_BYTES
    call.cancel()


def is_open(path: Path) -> bool:
    """Tell whether this process has the file open."""
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            if descriptor.readlink() == path:
                return True
        except OSError:
            continue
    return False
