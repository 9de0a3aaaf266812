"""The bin: removed objects whose bytes come back, or go before or at their time; and copies into other repositories."""

import asyncio
import os
from collections.abc import Awaitable
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from tests.service.storage.conftest import Sql
from tests.support.storage import RunningStorage, failure, oid_of, running_storage
from tests.support.waiting import until, until_answer

PRESENT, MISSING, REMOVED = pb.OBJECT_STATUS_PRESENT, pb.OBJECT_STATUS_MISSING, pb.OBJECT_STATUS_REMOVED
DAY_SECONDS = 24 * 3600


@pytest.mark.shared_storage
@pytest.mark.parametrize("size", [100, 2_000_000])
async def test_an_object_comes_back_as_it_was(storage: RunningStorage, repository_id: int, size: int) -> None:
    """A removed object is removed for everybody, and comes back with its bytes and its time."""
    data = os.urandom(size)
    oid = await storage.write(repository_id, data)
    [before] = await storage.records(repository_id)
    tombstone = await storage.delete(repository_id, oid, reason="a licence")
    assert tombstone.bin_until.seconds - tombstone.removed_at.seconds == 30 * DAY_SECONDS
    assert await storage.statuses(repository_id, oid) == [REMOVED]
    assert (await failure(storage.read(repository_id, oid))).reason == "OBJECT_REMOVED"
    assert await storage.records(repository_id) == [tombstone]
    assert (await storage.restore(repository_id, oid)).object == before
    [after] = await storage.records(repository_id)
    # A collection must not take it at once.
    assert after.HasField("used_at")
    after.ClearField("used_at")
    assert after == before
    assert await storage.read(repository_id, oid) == data
    assert (await failure(storage.restore(repository_id, oid))).reason == "OBJECT_NOT_FOUND"


async def test_what_is_in_the_bin_is_not_uploaded(storage: RunningStorage) -> None:
    """A removed object is refused with the reason; an upload to another repository is not, and keeps the bytes."""
    oid = await storage.write(1, b"data")
    await storage.delete(1, oid, reason="a licence")
    error = await failure(storage.write(1, b"data"))
    assert (error.reason, error.metadata["removal_reason"]) == ("OBJECT_REMOVED", "a licence")
    await storage.write(2, b"data")
    await storage.purge(1, oid)
    assert await storage.read(2, oid) == b"data"


async def test_purged_bytes_go_at_once(storage: RunningStorage) -> None:
    """A purge leaves the tombstone; only the permission to upload can be restored then."""
    oid = await storage.write(1, b"data")
    await storage.delete(1, oid)
    purged = await storage.purge(1, oid)
    assert list(purged.repository_ids) == []
    assert not purged.object.HasField("bin_until")
    assert await storage.purge(1, oid) == purged
    await until(lambda: storage.files() == [])
    assert await storage.statuses(1, oid) == [REMOVED]
    error = await failure(storage.restore(1, oid))
    assert (error.status.name, error.reason) == ("FAILED_PRECONDITION", "OBJECT_PURGED")
    assert await storage.statuses(1, oid) == [REMOVED]
    assert not (await storage.restore(1, oid, bytes_required=False)).HasField("object")
    assert await storage.statuses(1, oid) == [MISSING]
    await storage.write(1, b"data")
    assert await storage.read(1, oid) == b"data"


async def test_a_purge_names_who_needs_the_bytes(storage: RunningStorage) -> None:
    """Bytes stay for the repositories that hold the object, and for the bins of others."""
    oid = await storage.write(1, b"data")
    for other in (3, 2):
        await storage.write(other, b"data")
    for removing in (1, 2):
        await storage.delete(removing, oid)
    assert list((await storage.purge(1, oid)).repository_ids) == [2, 3]
    assert await storage.read(3, oid) == b"data"
    await storage.delete(3, oid)
    assert list((await storage.purge(3, oid)).repository_ids) == [2]
    await storage.restore(2, oid)
    assert await storage.read(2, oid) == b"data"


@pytest.mark.shared_storage
async def test_only_the_removed_are_purged_and_restored(storage: RunningStorage, repository_id: int) -> None:
    """A held object, one of another repository and one that never was are NOT_FOUND, and stay as they are."""
    held, theirs = await storage.write(repository_id, b"held"), await storage.write(1, b"theirs")
    never = oid_of(b"never")
    calls: list[Awaitable[object]] = [storage.delete(repository_id, oid) for oid in (theirs, never)]
    for oid in (held, theirs, never):
        calls.append(storage.purge(repository_id, oid))
        calls += [storage.restore(repository_id, oid, bytes_required=required) for required in (True, False)]
    for call in calls:
        error = await failure(call)
        assert (error.status.name, error.reason) == ("NOT_FOUND", "OBJECT_NOT_FOUND")
    assert await storage.read(repository_id, held) == b"held"
    assert await storage.read(1, theirs) == b"theirs"


async def test_the_time_in_the_bin_ends(database_url: SecretStr, tmp_path: Path) -> None:
    """An object's bytes go by themselves at the end of its time, and its tombstone stays."""
    async with running_storage(database_url, tmp_path, storage_bin_days=1 / DAY_SECONDS) as storage:
        gone, held = [await storage.write(1, os.urandom(100)) for _ in range(2)]
        await storage.delete(1, gone)
        await until(lambda: storage.files() == [storage.path(held)])
        assert await storage.statuses(1, gone, held) == [REMOVED, PRESENT]
        assert (await failure(storage.restore(1, gone))).reason == "OBJECT_PURGED"


async def test_many_end_at_once(storage: RunningStorage, sql: Sql) -> None:
    """More objects than go in one transaction leave the bins; those of later days and of other repositories stay."""
    await sql(
        "INSERT INTO storage.objects (repository_id, oid, size, removed_at, removal_reason, bin_until)"
        " SELECT 1, encode(sha256(n::text::bytea), 'hex'), 1, now(), 'x', now() + (n % 2) * interval '1 day'"
        " FROM generate_series(1, 1000) n;"
        "INSERT INTO storage.objects (repository_id, oid, size, removed_at, removal_reason, bin_until)"
        " SELECT 2, oid, 1, now(), 'x', now() + interval '1 day' FROM storage.objects ORDER BY bin_until LIMIT 5;"
        "INSERT INTO storage.contents (store_id, oid, name) SELECT DISTINCT 1, oid, oid FROM storage.objects"
    )
    oid = await storage.write(1, b"data")
    await storage.delete(1, oid)
    await storage.purge(1, oid)  # which wakes the sweep
    counts = "SELECT (SELECT count(*) FROM storage.contents), count(bin_until), count(*) FROM storage.objects"
    await until_answer("505|505|1006", lambda: sql(counts))


async def test_bytes_that_an_earlier_version_let_go(storage: RunningStorage, sql: Sql) -> None:
    """An object whose bytes a service without bins has discarded does not come back empty."""
    oid = await storage.write(1, b"data")
    await storage.delete(1, oid)
    await sql("DELETE FROM storage.contents")
    assert (await failure(storage.restore(1, oid))).reason == "OBJECT_PURGED"
    assert await storage.statuses(1, oid) == [REMOVED]


async def test_removals_restores_and_purges_at_once(storage: RunningStorage) -> None:
    """Whatever the order, a held object can be read; and when all bins are empty, no bytes are left."""
    content = os.urandom(10_000)
    oid = oid_of(content)

    async def come_and_go(repository_id: int) -> None:
        for number in range(12):
            await storage.write(repository_id, content)
            assert await storage.read(repository_id, oid) == content
            await storage.delete(repository_id, oid)
            if number % 2:
                await storage.purge(repository_id, oid)
            else:
                assert (await storage.restore(repository_id, oid)).HasField("object")
                assert await storage.read(repository_id, oid) == content
                await storage.delete(repository_id, oid)
                await storage.purge(repository_id, oid)
            await storage.restore(repository_id, oid, bytes_required=False)

    await asyncio.gather(*(come_and_go(repository_id) for repository_id in range(1, 6)))
    await until(lambda: storage.files() == [])


async def test_a_fork_holds_the_same_bytes(storage: RunningStorage, sql: Sql) -> None:
    """A copy needs no bytes, outlives its source, brings nothing back, and tells what could not be copied."""
    held, own, removed, lost, absent = [await storage.write(1, os.urandom(100)) for _ in range(5)]
    data = await storage.read(1, held)
    await storage.delete(1, absent)
    await sql(f"UPDATE storage.contents SET is_doubted = true WHERE oid = '{lost}'")  # noqa: S608 - an oid
    for target_oid in (own, removed):
        await storage.copy(1, 2, target_oid)
    await storage.delete(2, removed)
    files = storage.files()
    copied = await storage.copy(1, 2, held, own, removed, lost, absent)
    assert list(copied.copied_oids) == [held]
    assert list(copied.missing_oids) == sorted([lost, absent])
    assert list(copied.removed_oids) == [removed]
    assert storage.files() == files
    assert list((await storage.copy(1, 2, held)).copied_oids) == []
    await storage.delete(1, held)
    await storage.purge(1, held)
    assert await storage.read(2, held) == data


async def test_many_are_copied(storage: RunningStorage, sql: Sql) -> None:
    """More objects than go in one transaction are copied by one call."""
    await sql(
        "INSERT INTO storage.objects (repository_id, oid, size)"
        " SELECT 1, encode(sha256(n::text::bytea), 'hex'), 1 FROM generate_series(1, 1000) n;"
        "INSERT INTO storage.contents (store_id, oid, name) SELECT 1, oid, oid FROM storage.objects"
    )
    oids = [entry.oid for entry in await storage.records(1)]
    assert list((await storage.copy(1, 2, *oids)).copied_oids) == oids
    assert [entry.oid for entry in await storage.records(2)] == oids


@pytest.mark.shared_storage
@pytest.mark.parametrize(
    ("source", "target", "oids", "reason"),
    [
        (1, 1, ["0" * 64], "INVALID_FIELD"),
        (1, 0, ["0" * 64], "INVALID_FIELD"),
        (1, 2, ["0" * 63], "INVALID_OID"),
        (1, 2, ["0" * 64] * 1001, "BATCH_TOO_LARGE"),
    ],
)
async def test_malformed_copies(
    storage: RunningStorage, source: int, target: int, oids: list[str], reason: str
) -> None:
    """Malformed fields are INVALID_ARGUMENT."""
    error = await failure(storage.copy(source, target, *oids))
    assert (error.status.name, error.reason) == ("INVALID_ARGUMENT", reason)


async def test_nothing_is_copied_into_a_deleted_repository(storage: RunningStorage) -> None:
    """A repository that was deleted holds nothing any more."""
    oid = await storage.write(1, b"data")
    await storage.delete_repository(2)
    assert (await failure(storage.copy(1, 2, oid))).reason == "REPOSITORY_NOT_FOUND"
