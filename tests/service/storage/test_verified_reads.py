"""TOWPATH_STORAGE_VERIFY_READS: bytes that are not the object never reach their end."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import from_rpc_error
from tests.support.damage import DAMAGE, DAMAGED_SIZE
from tests.support.storage import RunningStorage, running_storage
from tests.support.stores import Stores
from tests.support.waiting import STEP_SECONDS, until

SIZES = [1, 1000, 300_000, 3_000_000]


@pytest.fixture
async def storage(database_url: SecretStr, tmp_path: Path) -> AsyncIterator[RunningStorage]:
    """A storage service that verifies every whole read, and scrubs nothing."""
    async with running_storage(database_url, tmp_path, storage_verify_reads="always", storage_scrub_days=0) as running:
        yield running


async def _received(storage: RunningStorage, oid: str) -> tuple[int, str]:
    """Read an object; return how many bytes came, and the reason of the error that ended them."""
    count = 0
    request = pb.ReadObjectRequest(repository_id=1, oid=oid)
    try:
        async for response in storage.stub.ReadObject(request, timeout=STEP_SECONDS):
            count += len(response.data)
    except grpc.aio.AioRpcError as error:
        return count, from_rpc_error(error).reason
    return count, ""


async def test_wrong_bytes_are_cut_off(storage: RunningStorage) -> None:
    """A reader gets less than the object, and the next one is told that it is damaged; a push heals it."""
    for size in SIZES:
        data = os.urandom(size)
        oid = await storage.write(1, data)
        assert await storage.read(1, oid) == data
        DAMAGE["the last bit"](storage.path(oid))
        count, reason = await _received(storage, oid)
        assert (count < size, reason) == (True, "OBJECT_DAMAGED"), size
        assert await storage.statuses(1, oid) == [pb.OBJECT_STATUS_DAMAGED], size
        await storage.write(1, data)
        assert await storage.read(1, oid) == data


async def test_no_damage_is_served_as_right(storage: RunningStorage) -> None:
    """Nobody gets the whole object from what is damaged in any way, and everybody is told."""
    for kind, damage in DAMAGE.items():
        oid = await storage.write(1, os.urandom(DAMAGED_SIZE))
        damage(storage.path(oid))
        for _ in range(2):
            count, reason = await _received(storage, oid)
            assert (count < DAMAGED_SIZE, reason) == (True, "OBJECT_DAMAGED"), kind
        assert await storage.statuses(1, oid) == [pb.OBJECT_STATUS_DAMAGED], kind


async def test_the_next_reader_gets_it_from_another_store(storage: RunningStorage) -> None:
    """Only the reader who finds the damage has to ask again, if another store has the bytes."""
    stores = Stores(storage)
    data = os.urandom(300_000)
    oid = await storage.write(1, data)
    await stores.fill("second", "first")
    damaged = stores.path("first", oid)
    DAMAGE["the last bit"](damaged)
    assert (await _received(storage, oid))[1] == "OBJECT_DAMAGED"
    assert await storage.read(1, oid) == data
    await until(lambda: stores.path("first", oid) != damaged)


async def test_parts_and_paths(storage: RunningStorage) -> None:
    """A part cannot be verified; and nobody is told of a path by which to read past the service."""
    data = os.urandom(300_000)
    oid = await storage.write(1, data)
    assert await storage.read(1, oid, offset=10, length=20) == data[10:30]
    request = pb.LocateObjectRequest(repository_id=1, oid=oid)
    located = await storage.stub.LocateObject(request, timeout=STEP_SECONDS)
    assert (located.size, list(located.paths)) == (300_000, [])
