"""WriteObject: what is taken, what is refused, and that a refusal leaves nothing."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.rpc.options import CHUNK_BYTES
from tests.support.memory_backend import MemoryBackend
from tests.support.storage import RunningStorage, chunks_of, failure, finish, oid_of, running_storage, upload
from tests.support.waiting import STEP_SECONDS, until

DATA = b"some bytes"
OID = oid_of(DATA)


def header(oid: str = OID, size: int = len(DATA), repository_id: int = 1) -> pb.WriteObjectRequest:
    """Return the first message of an upload."""
    return pb.WriteObjectRequest(header=pb.WriteObjectRequest.Header(repository_id=repository_id, oid=oid, size=size))


def data(chunk: bytes) -> pb.WriteObjectRequest:
    """Return another message of an upload."""
    return pb.WriteObjectRequest(data=chunk)


async def refused(storage: RunningStorage, *messages: pb.WriteObjectRequest, then_silent: bool = False) -> str:
    """Return the reason for which an upload is refused; see that nothing is left of it."""
    before = storage.files()

    async def send() -> AsyncIterator[pb.WriteObjectRequest]:
        for message in messages:
            yield message
        if then_silent:
            await asyncio.Event().wait()

    error = await failure(storage.stub.WriteObject(send(), timeout=STEP_SECONDS))
    await until(lambda: set(storage.files()) <= set(before))
    return f"{error.status.name} {error.reason}"


@pytest.mark.shared_storage
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, CHUNK_BYTES, 2 * CHUNK_BYTES + 1])
async def test_write_and_read(storage: RunningStorage, size: int, streamed: bool) -> None:
    """Objects of any size, the empty one too, come back as they were, and may be written again."""
    content = os.urandom(size)
    for _ in range(2):
        oid = await storage.write(1, content, streamed=streamed)
    assert await storage.read(1, oid) == content
    assert storage.path(oid).read_bytes() == content
    await until(lambda: storage.incoming() == [])


@pytest.mark.shared_storage
async def test_what_another_version_adds_to_a_message(storage: RunningStorage) -> None:
    """Data in a message with a field that is not known here is taken as data."""
    unknown = b"\x98\x06\x01"
    more = pb.WriteObjectRequest.FromString(data(DATA).SerializeToString() + unknown)
    assert more.SerializeToString().endswith(unknown)
    await storage.stub.WriteObject(iter([header(), more]), timeout=STEP_SECONDS)
    assert await storage.read(1, OID) == DATA


def whole(content: bytes, **other: str | int) -> pb.WriteWholeObjectRequest:
    """Return the message of an object that is written in one, with other fields than its own where they are given."""
    fields: dict[str, Any] = {"repository_id": 1, "oid": oid_of(content), "size": len(content), **other}
    return pb.WriteWholeObjectRequest(data=content, **fields)


@pytest.mark.shared_storage
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (whole(DATA, oid=oid_of(b"other")), "HASH_MISMATCH"),
        (whole(DATA, size=len(DATA) + 1), "SIZE_MISMATCH"),
        (whole(DATA, size=len(DATA) - 1), "SIZE_MISMATCH"),
        (whole(bytes(CHUNK_BYTES + 1)), "MALFORMED_STREAM"),
        (whole(DATA, oid=OID.upper()), "INVALID_OID"),
        (whole(DATA, repository_id=0), "INVALID_FIELD"),
        (whole(DATA, size=-1), "INVALID_FIELD"),
    ],
)
async def test_what_is_refused_in_one_message(
    storage: RunningStorage, message: pb.WriteWholeObjectRequest, reason: str
) -> None:
    """A whole object must be refused for the same reasons as a stream, and leave nothing."""
    before = storage.files()
    error = await failure(storage.stub.WriteWholeObject(message, timeout=STEP_SECONDS))
    assert (error.status.name, error.reason) == ("INVALID_ARGUMENT", reason)
    await until(lambda: set(storage.files()) <= set(before))


@pytest.mark.shared_storage
async def test_answer_describes_the_object(storage: RunningStorage) -> None:
    """The answer is the object's record."""
    streamed = await storage.stub.WriteObject(upload(1, OID, len(DATA), [DATA]), timeout=STEP_SECONDS)
    in_one = await storage.stub.WriteWholeObject(whole(DATA), timeout=STEP_SECONDS)
    for record in (streamed.object, in_one.object):
        assert (record.oid, record.size) == (OID, len(DATA))
        assert record.created_at.seconds > 1_700_000_000
        assert not record.HasField("removed_at")


@pytest.mark.shared_storage
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(content=st.binary(max_size=2000), length=st.integers(1, 700), empty=st.booleans())
async def test_any_chunking(storage: RunningStorage, content: bytes, length: int, empty: bool) -> None:
    """However the bytes are cut, with empty pieces or without, the object is the same."""
    chunks = [*chunks_of(content, length), *([b""] if empty else [])]
    oid = oid_of(content)
    await storage.stub.WriteObject(upload(1, oid, len(content), chunks), timeout=STEP_SECONDS)
    assert await storage.read(1, oid) == content


async def test_trap_1_wrong_bytes_are_refused(storage: RunningStorage) -> None:
    """Bytes with another hash are refused, and nothing is kept (trap-1)."""
    assert await refused(storage, header(), data(b"other byte")) == "INVALID_ARGUMENT HASH_MISMATCH"
    assert await refused(storage, header(size=0)) == "INVALID_ARGUMENT HASH_MISMATCH"
    assert await storage.statuses(1, OID) == [pb.OBJECT_STATUS_MISSING]


async def test_trap_2_short_uploads_are_refused(storage: RunningStorage) -> None:
    """An upload that ends early leaves nothing that could count as present (trap-2)."""
    assert await refused(storage, header(), data(DATA[:-1])) == "INVALID_ARGUMENT SIZE_MISMATCH"
    assert await refused(storage, header()) == "INVALID_ARGUMENT SIZE_MISMATCH"
    assert await storage.statuses(1, OID) == [pb.OBJECT_STATUS_MISSING]


@pytest.mark.shared_storage
async def test_trap_5_long_uploads_are_refused_at_once(storage: RunningStorage) -> None:
    """The first byte too many ends the upload; what would come after it is not waited for (trap-5)."""
    messages = header(size=len(DATA) - 1), data(DATA)
    assert await refused(storage, *messages, then_silent=True) == "INVALID_ARGUMENT SIZE_MISMATCH"
    assert await refused(storage, header(size=len(DATA) + 1), data(DATA)) == "INVALID_ARGUMENT SIZE_MISMATCH"


@pytest.mark.shared_storage
@pytest.mark.parametrize(
    "messages",
    [
        [],
        [data(DATA)],
        [pb.WriteObjectRequest()],
        [header(), header()],
        [header(), data(DATA[:3]), header()],
        [header(), pb.WriteObjectRequest()],
        [header(size=CHUNK_BYTES + 1), data(b"x" * (CHUNK_BYTES + 1))],
    ],
    ids=["nothing", "no header", "empty message", "two headers", "header amid data", "no data", "long data"],
)
async def test_malformed_streams(storage: RunningStorage, messages: list[pb.WriteObjectRequest]) -> None:
    """A stream is one header and then data of at most 1 MiB."""
    assert await refused(storage, *messages) == "INVALID_ARGUMENT MALFORMED_STREAM"


@pytest.mark.shared_storage
async def test_malformed_headers(storage: RunningStorage) -> None:
    """A malformed header is refused before any byte is waited for (trap-28)."""
    for oid in ("../../x", OID.upper(), "", OID + "0"):
        assert await refused(storage, header(oid=oid), then_silent=True) == "INVALID_ARGUMENT INVALID_OID"
    assert await refused(storage, header(size=-1), then_silent=True) == "INVALID_ARGUMENT INVALID_FIELD"
    assert await refused(storage, header(repository_id=0), then_silent=True) == "INVALID_ARGUMENT INVALID_FIELD"


@pytest.mark.shared_storage
async def test_trap_3_left_over_file_does_not_block(storage: RunningStorage) -> None:
    """A file left in the folder of uploads, whatever its name, blocks no upload of that oid (trap-3)."""
    for name in (OID, f"{OID}.tmp", f"{OID}.0123456789abcdef"):
        (storage.root / "incoming" / name).write_bytes(b"left")
    assert await storage.write(1, DATA) == OID
    assert await storage.read(1, OID) == DATA


async def test_idle_upload_is_cut_off(database_url: SecretStr, tmp_path: Path) -> None:
    """A stream that falls silent fails after the bound, and leaves nothing."""
    async with running_storage(database_url, tmp_path, storage_idle_seconds=0.3) as storage:
        assert await refused(storage, then_silent=True) == "DEADLINE_EXCEEDED DEADLINE_EXCEEDED"
        assert await refused(storage, header(), then_silent=True) == "DEADLINE_EXCEEDED DEADLINE_EXCEEDED"
        messages = header(), data(DATA[:3])
        assert await refused(storage, *messages, then_silent=True) == "DEADLINE_EXCEEDED DEADLINE_EXCEEDED"


async def test_client_that_goes_away_leaves_nothing(storage: RunningStorage) -> None:
    """A cut upload leaves no file (trap-2)."""
    call = await storage.begin(header(size=10 * CHUNK_BYTES), *[data(b"x" * CHUNK_BYTES)] * 3)
    await until(lambda: sum(path.stat().st_size for path in storage.incoming()) == 3 * CHUNK_BYTES)
    call.cancel()
    await until(lambda: storage.files() == [])


async def test_full_disk_is_told_before_a_byte_is_sent(database_url: SecretStr, tmp_path: Path) -> None:
    """A client must learn from the answer to its header that the object does not fit beside the reserve."""
    async with running_storage(database_url, tmp_path, storage_reserve_bytes=1 << 60) as storage:
        assert await refused(storage, header(size=1), then_silent=True) == "RESOURCE_EXHAUSTED STORAGE_FULL"
    async with running_storage(database_url, tmp_path) as storage:
        assert await refused(storage, header(size=2**63 - 1), then_silent=True) == "RESOURCE_EXHAUSTED STORAGE_FULL"


async def test_disk_that_fills_up_meanwhile(database_url: SecretStr, tmp_path: Path) -> None:
    """If others take the room while an upload goes on, the upload must be refused and leave nothing."""
    backend = MemoryBackend(capacity=100)
    async with running_storage(database_url, tmp_path, backend=backend) as storage:
        call = await storage.begin(header(), data(DATA[:3]))
        await until(lambda: bool(backend.uploads and backend.uploads[0].content))
        backend.capacity = 0
        assert (await failure(finish(call, data(DATA[3:])))).reason == "STORAGE_FULL"
        assert (backend.uploads, backend.contents) == ([], {})


async def test_removed_object_is_not_taken_back(storage: RunningStorage) -> None:
    """A removed object is refused by its header, with the reason."""
    await storage.write(1, DATA)
    await storage.delete(1, OID, reason="a licence")
    await storage.purge(1, OID)
    await until(lambda: storage.files() == [])
    assert await refused(storage, header(), then_silent=True) == "FAILED_PRECONDITION OBJECT_REMOVED"
    error = await failure(storage.stub.WriteObject(upload(1, OID, len(DATA), [DATA]), timeout=STEP_SECONDS))
    assert error.metadata == {"removal_reason": "a licence"}
    assert "a licence" in error.message


async def test_object_removed_while_it_is_written(storage: RunningStorage) -> None:
    """A removal during an upload wins, and no bytes are left."""
    await storage.write(1, DATA)
    call = await storage.begin(header(), data(DATA[:5]))
    await until(lambda: bool(storage.incoming()))
    await storage.delete(1, OID)
    await storage.purge(1, OID)
    assert (await failure(finish(call, data(DATA[5:])))).reason == "OBJECT_REMOVED"
    await until(lambda: storage.files() == [])


async def test_held_object_needs_its_bytes_all_the_same(storage: RunningStorage) -> None:
    """Writing what is held succeeds with the right bytes, and with no others; the record keeps its time."""
    first = await storage.stub.WriteObject(upload(1, OID, len(DATA), [DATA]), timeout=STEP_SECONDS)
    again = await storage.stub.WriteObject(upload(1, OID, len(DATA), [DATA]), timeout=STEP_SECONDS)
    assert again.object == first.object
    await until(lambda: len(storage.files()) == 1)
    assert await refused(storage, header(), data(b"other byte")) == "INVALID_ARGUMENT HASH_MISMATCH"
    assert await refused(storage, header()) == "INVALID_ARGUMENT SIZE_MISMATCH"
    assert await storage.read(1, OID) == DATA


async def test_bytes_of_two_repositories_lie_once(storage: RunningStorage) -> None:
    """A second repository gets an object by sending its bytes, which are kept once."""
    await storage.write(1, DATA)
    assert await refused(storage, header(repository_id=2)) == "INVALID_ARGUMENT SIZE_MISMATCH"
    assert await storage.statuses(2, OID) == [pb.OBJECT_STATUS_MISSING]
    await storage.write(2, DATA)
    await until(lambda: len(storage.files()) == 1)
    assert await storage.read(1, OID) == await storage.read(2, OID) == DATA


async def test_trap_4_concurrent_uploads_all_succeed(storage: RunningStorage) -> None:
    """20 rounds of 8 writers of one oid: all succeed, one file, the right bytes (trap-4, trap-13)."""
    for _ in range(20):
        content = os.urandom(CHUNK_BYTES // 4)
        oids = await asyncio.gather(*(storage.write(repository % 3 + 1, content) for repository in range(8)))
        assert await storage.read(1, oids[0]) == content
    await until(lambda: len(storage.files()) == 20)


async def test_good_bad_and_stalled_writers_of_one_oid(storage: RunningStorage) -> None:
    """Of writers of one oid at once, those with right bytes succeed; readers never see other bytes (trap-4)."""
    content = os.urandom(2 * CHUNK_BYTES)
    oid = oid_of(content)
    stalled = await storage.begin(header(oid, len(content)), data(content[:100]))
    corrupt = [content[:CHUNK_BYTES], os.urandom(CHUNK_BYTES)]
    bad = asyncio.ensure_future(storage.stub.WriteObject(upload(1, oid, len(content), corrupt), timeout=STEP_SECONDS))
    await asyncio.gather(*(storage.write(1, content) for _ in range(6)))
    assert (await failure(bad)).reason == "HASH_MISMATCH"
    assert await storage.read(1, oid) == content
    assert (await failure(finish(stalled))).reason == "SIZE_MISMATCH"
    await until(lambda: len(storage.files()) == 1)
    assert await storage.read(1, oid) == content
