"""DeleteObject, RestoreObject, DeleteRepository without a bin: tombstones, and when bytes go."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.storage.index import objects
from tests.service.storage.conftest import Sql, connected
from tests.support.storage import RunningStorage, failure, oid_of, running_storage
from tests.support.waiting import STEP_SECONDS, until, until_answer

MISSING, REMOVED = pb.OBJECT_STATUS_MISSING, pb.OBJECT_STATUS_REMOVED
WAITING = "SELECT count(*), count(*) FILTER (WHERE due_at > now() + interval '30 minutes') FROM storage.discards"
"""The number of names that wait to be discarded, and of those that wait for long."""


@pytest.fixture
async def storage(database_url: SecretStr, tmp_path: Path) -> AsyncIterator[RunningStorage]:
    """A storage service on a disk, empty, that keeps nothing in bins."""
    async with running_storage(database_url, tmp_path, storage_bin_days=0) as running:
        yield running


async def test_tombstone(storage: RunningStorage) -> None:
    """A removed object leaves a tombstone with reason, time and remover, and its bytes go."""
    oid = await storage.write(1, b"data")
    tombstone = await storage.delete(1, oid, reason="a licence")
    assert (tombstone.oid, tombstone.size) == (oid, 4)
    assert (tombstone.removal_reason, tombstone.removed_by) == ("a licence", "alice")
    assert tombstone.removed_at.seconds >= tombstone.created_at.seconds > 0
    assert await storage.statuses(1, oid) == [REMOVED]
    await until(lambda: storage.files() == [])


async def test_repeated_removal_changes_nothing(storage: RunningStorage) -> None:
    """The first removal's reason and time stay."""
    oid = await storage.write(1, b"data")
    first = await storage.delete(1, oid, reason="first")
    assert await storage.delete(1, oid, reason="second") == first


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (pb.DeleteObjectRequest(repository_id=1, oid="0" * 64, reason=""), "INVALID_FIELD"),
        (pb.DeleteObjectRequest(repository_id=1, oid="0" * 64, reason="x" * 1001), "INVALID_FIELD"),
        (pb.DeleteObjectRequest(repository_id=1, oid="0" * 64, reason="x", removed_by="\0"), "INVALID_FIELD"),
        (pb.DeleteObjectRequest(repository_id=1, oid="x", reason="x"), "INVALID_OID"),
        (pb.DeleteObjectRequest(oid="0" * 64, reason="x"), "INVALID_FIELD"),
    ],
)
async def test_malformed_removals(shared: RunningStorage, request_: pb.DeleteObjectRequest, reason: str) -> None:
    """Malformed fields are INVALID_ARGUMENT."""
    error = await failure(shared.stub.DeleteObject(request_, timeout=STEP_SECONDS))
    assert (error.status.name, error.reason) == ("INVALID_ARGUMENT", reason)


async def test_repository_is_forgotten(storage: RunningStorage) -> None:
    """Objects and tombstones of the repository go, and the bytes that nobody else holds."""
    own, shared, removed = [await storage.write(1, content) for content in (b"own", b"shared", b"removed")]
    await storage.write(2, b"shared")
    await storage.delete(1, removed)
    assert await storage.delete_repository(1) == 2
    assert await storage.statuses(1, own, shared, removed) == [MISSING] * 3
    await until(lambda: len(storage.files()) == 1)
    assert await storage.read(2, shared) == b"shared"
    assert await storage.delete_repository(1) == 0


async def test_bytes_that_cannot_go_hold_up_no_others(storage: RunningStorage, sql: Sql) -> None:
    """A blob that the disk does not release must be retried, and must delay no other deletion."""
    stuck, *_ = [await storage.write(1, os.urandom(100)) for _ in range(40)]
    path = storage.path(stuck)
    path.unlink()
    (path / "within").mkdir(parents=True)
    assert await storage.delete_repository(1) == 40
    await until(lambda: storage.files() == [])
    await until_answer("1|1", lambda: sql(WAITING))
    shutil.rmtree(path)
    await sql("UPDATE storage.discards SET due_at = now()")
    await storage.delete_repository(1)  # which wakes the sweep
    await until_answer("0|0", lambda: sql(WAITING))


async def test_nothing_is_written_into_a_deleted_repository(storage: RunningStorage) -> None:
    """A write with a right that was given before the removal is refused and leaves nothing behind."""
    await storage.delete_repository(1)
    error = await failure(storage.write(1, b"late"))
    assert (error.status.name, error.reason) == ("NOT_FOUND", "REPOSITORY_NOT_FOUND")
    await until(lambda: storage.files() == [])
    await storage.write(2, b"late")


async def test_bytes_stay_while_deletions_are_held_back(storage: RunningStorage, database_url: SecretStr) -> None:
    """While a backup runs, removals are answered as ever and uploads go on; the bytes go when it has ended."""
    removed, again, forgotten = [await storage.write(1, data) for data in (b"removed", b"again", b"forgotten")]
    before = storage.files()
    async with connected(database_url) as connection:
        await objects.hold_deletions(connection)
        await connection.commit()
        await storage.delete(1, removed)
        await storage.delete(1, again)
        await storage.delete_repository(1)
        assert await storage.statuses(1, removed, forgotten) == [MISSING, MISSING]
        await storage.write(2, b"again")
        assert set(before) < set(storage.files())
    await storage.delete_repository(3)
    await until(lambda: len(storage.files()) == 1)
    assert storage.files() == [storage.path(again)]
    assert await storage.read(2, again) == b"again"


async def test_large_repository_is_forgotten(storage: RunningStorage, sql: Sql) -> None:
    """A repository of more objects than go at a time is forgotten whole, and others are not."""
    await sql(
        "INSERT INTO storage.objects (repository_id, oid, size) "
        "SELECT 1 + n % 2, encode(sha256(n::text::bytea), 'hex'), 1 FROM generate_series(1, 5000) n"
    )
    assert await storage.delete_repository(1) == 2500
    assert [(await storage.usage(each)).object_count for each in (1, 2)] == [0, 2500]


async def test_removals_and_uploads_of_one_oid_at_once(storage: RunningStorage) -> None:
    """Whatever the order of uploads and removals, every object that is held can be read, and no other bytes lie."""
    content = os.urandom(10_000)
    oid = oid_of(content)

    async def come_and_go(repository_id: int) -> None:
        for _ in range(10):
            await storage.write(repository_id, content)
            assert await storage.read(repository_id, oid) == content
            await storage.delete(repository_id, oid)
            await storage.restore(repository_id, oid, bytes_required=False)

    await asyncio.gather(*(come_and_go(repository_id) for repository_id in range(1, 6)))
    await until(lambda: storage.files() == [])
