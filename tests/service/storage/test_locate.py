"""LocateObject: where bytes lie, for those who share the disk; and what counts as read."""

from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from tests.support.memory_backend import MemoryBackend
from tests.support.storage import RunningStorage, failure, oid_of, running_storage
from tests.support.stores import Stores
from tests.support.waiting import STEP_SECONDS, until_answer

DATA = bytes(range(200))
OID = oid_of(DATA)


def _request(
    oid: str = OID, *, repository_id: int = 1, offset: int = 0, length: int | None = None
) -> pb.LocateObjectRequest:
    return pb.LocateObjectRequest(repository_id=repository_id, oid=oid, offset=offset, length=length)


async def _locate(storage: RunningStorage, asked: pb.LocateObjectRequest) -> pb.LocateObjectResponse:
    return await storage.stub.LocateObject(asked, timeout=STEP_SECONDS)


async def _wait_counted(storage: RunningStorage, size: int, repository_id: int = 1) -> None:
    """Wait until so many bytes count as read; a count that is just being kept may be told as less."""

    async def counted() -> int:
        return (await storage.usage(repository_id)).bytes_out_today

    await until_answer(size, counted)


async def test_the_path_is_where_the_bytes_are(storage: RunningStorage) -> None:
    """Below the folder of the store."""
    await storage.write(1, DATA)
    located = await _locate(storage, _request())
    assert located.size == len(DATA)
    assert [storage.root / path for path in located.paths] == [storage.path(OID)]


async def test_each_disk_has_its_path(storage: RunningStorage) -> None:
    """The primary's is the first."""
    stores = Stores(storage)
    await storage.write(1, DATA)
    await stores.fill("other", "first")
    first, second = (await _locate(storage, _request())).paths
    assert (storage.root / first).read_bytes() == DATA
    assert (stores.root("other") / second).read_bytes() == DATA


@pytest.mark.shared_storage
@pytest.mark.parametrize(
    ("offset", "length", "counted"), [(0, None, 200), (50, None, 150), (50, 10, 10), (190, 50, 10), (200, None, 0)]
)
async def test_what_is_asked_for_counts_as_read(
    storage: RunningStorage, repository_id: int, offset: int, length: int | None, counted: int
) -> None:
    """The bytes that a caller asks for count, and no more than there are."""
    await storage.write(repository_id, DATA)
    await _locate(storage, _request(repository_id=repository_id, offset=offset, length=length))
    await _wait_counted(storage, counted, repository_id)


async def test_what_has_counted_does_not_count_again(storage: RunningStorage) -> None:
    """A caller that did not find the file has the bytes sent."""
    await storage.write(1, DATA)
    await _locate(storage, _request())
    asked = pb.ReadObjectRequest(repository_id=1, oid=OID, is_counted=True)
    messages = [message async for message in storage.stub.ReadObject(asked, timeout=STEP_SECONDS)]
    assert b"".join(message.data for message in messages) == DATA
    await _wait_counted(storage, len(DATA))


async def test_what_lies_on_no_disk_has_no_path(database_url: SecretStr, tmp_path: Path) -> None:
    """An object of a store in memory has no path on a disk, and looking it up counts no bytes as read."""
    async with running_storage(database_url, tmp_path, backend=MemoryBackend()) as storage:
        await storage.write(1, DATA)
        assert await _locate(storage, _request()) == pb.LocateObjectResponse(size=len(DATA))
        await _wait_counted(storage, 0)


async def test_it_fails_as_reading_does(storage: RunningStorage) -> None:
    """An object that is not held, held by another repository, removed or malformed must count no traffic."""
    await storage.write(2, DATA)
    asked = _request(), _request(oid="0" * 64), _request(OID.upper()), _request(offset=-1), _request(repository_id=-1)
    reasons = [(await failure(_locate(storage, one))).reason for one in asked]
    assert reasons == ["OBJECT_NOT_FOUND", "OBJECT_NOT_FOUND", "INVALID_OID", "INVALID_FIELD", "INVALID_FIELD"]
    await storage.write(1, DATA)
    beyond = await failure(_locate(storage, _request(offset=201)))
    assert (beyond.reason, beyond.metadata) == ("OFFSET_OUT_OF_RANGE", {"size": "200"})
    await storage.delete(1, OID, reason="licence withdrawn")
    removed = await failure(_locate(storage, _request()))
    assert (removed.reason, removed.metadata["removal_reason"]) == ("OBJECT_REMOVED", "licence withdrawn")
    await _wait_counted(storage, 0)


async def test_the_limit_of_bandwidth_holds(database_url: SecretStr, tmp_path: Path) -> None:
    """A read that was counted before the limit must go on to its end."""
    async with running_storage(database_url, tmp_path, storage_bandwidth_limit=300) as storage:
        await storage.write(1, DATA)
        await _locate(storage, _request())
        assert (await failure(_locate(storage, _request()))).reason == "BANDWIDTH_EXCEEDED"
        asked = pb.ReadObjectRequest(repository_id=1, oid=OID, is_counted=True)
        assert [message async for message in storage.stub.ReadObject(asked, timeout=STEP_SECONDS)]
