"""Traffic: counted, kept, limited."""

import datetime
from collections.abc import Awaitable
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.storage.capacity import quota
from tests.service.storage.conftest import Sql
from tests.support.storage import RunningStorage, failure, oid_of, running_storage, two_storages
from tests.support.waiting import STEP_SECONDS, until_answer


async def test_traffic_is_kept(sql: Sql, database_url: SecretStr, tmp_path: Path) -> None:
    """A new process continues from the traffic in Postgres: it is there within seconds, and complete after a stop."""
    query = "SELECT bytes_in, bytes_out FROM storage.traffic WHERE repository_id = 1"
    async with running_storage(database_url, tmp_path) as storage:
        oid = await storage.write(1, bytes(100))
        await storage.read(1, oid)
        await until_answer("100|100", lambda: sql(query))
        await storage.read(1, oid, length=10)
    assert await sql(query) == "100|110"
    async with running_storage(database_url, tmp_path) as storage:
        await storage.read(1, oid, length=1)
        usage = await storage.usage(1)
        assert (usage.bytes_in_today, usage.bytes_out_today) == (100, 111)


async def test_what_one_service_moves_counts_at_all(database_url: SecretStr, tmp_path: Path) -> None:
    """Within seconds a repository that has moved its bytes here is refused there, too."""
    async with two_storages(database_url, tmp_path, storage_bandwidth_limit=100) as [here, there]:
        oid = await here.write(1, bytes(100))

        async def bytes_in() -> int:
            return (await there.usage(1)).bytes_in_today

        await until_answer(100, bytes_in)
        assert (await failure(there.read(1, oid))).reason == "BANDWIDTH_EXCEEDED"


async def test_bandwidth_limit(database_url: SecretStr, tmp_path: Path) -> None:
    """A repository that has moved its bytes is refused at once, both ways; others are not."""
    async with running_storage(database_url, tmp_path, storage_bandwidth_limit=100) as storage:
        oid = await storage.write(1, bytes(60))
        await storage.read(1, oid, length=39)
        # Up to the limit a transfer begins, and one that has begun goes on to its end.
        assert len(await storage.read(1, oid)) == 60
        calls: list[Awaitable[object]] = [
            storage.read(1, oid),
            storage.write(1, b"x", streamed=True),
            storage.stat(1, (oid, 1), intent=pb.INTENT_READ),
            storage.stat(1, (oid_of(b"x"), 1), intent=pb.INTENT_WRITE),
        ]
        for call in calls:
            error = await failure(call)
            assert (error.status.name, error.reason) == ("RESOURCE_EXHAUSTED", "BANDWIDTH_EXCEEDED")
        # Where nothing would move nothing is refused.
        assert await storage.statuses(1, oid) == [pb.OBJECT_STATUS_PRESENT]
        await storage.stat(1, (oid, 60), intent=pb.INTENT_WRITE)
        await storage.write(2, b"other")


async def test_reads_of_others_are_counted(sql: Sql, database_url: SecretStr, tmp_path: Path) -> None:
    """By repository; where nothing is limited, nobody's bytes are used up."""
    async with running_storage(database_url, tmp_path) as storage:
        for counts in ({1: 100, 2: 5}, {1: 1, 3: 0}):
            reply = await storage.stub.CountReads(pb.CountReadsRequest(bytes=counts), timeout=STEP_SECONDS)
            assert not reply.used_up_repository_ids
    rows = "SELECT string_agg(repository_id || ':' || bytes_out, ' ' ORDER BY repository_id) FROM storage.traffic"
    assert await sql(rows) == "1:101 2:5 3:0"


async def test_who_reads_is_told_whose_bytes_are_used_up(database_url: SecretStr, tmp_path: Path) -> None:
    """Whoever has moved them, as soon as another service has counted them."""
    async with two_storages(database_url, tmp_path, storage_bandwidth_limit=100) as [here, there]:
        for storage, counts, used_up in (
            (here, {1: 50, 2: 99}, []),
            (there, {1: 50, 2: 0}, [1]),
            (here, {1: 0, 2: 1}, [1, 2]),
            (there, {3: 1}, []),
        ):
            reply = await storage.stub.CountReads(pb.CountReadsRequest(bytes=counts), timeout=STEP_SECONDS)
            assert sorted(reply.used_up_repository_ids) == used_up


@pytest.mark.parametrize("counts", [{0: 1}, {1: -1}, dict.fromkeys(range(1, 1002), 1)])
async def test_counts_out_of_bounds_are_refused(
    sql: Sql, database_url: SecretStr, tmp_path: Path, counts: dict[int, int]
) -> None:
    """A call with counts out of bounds is refused as a whole, so that no part of it is counted."""
    async with running_storage(database_url, tmp_path) as storage:
        error = await failure(storage.stub.CountReads(pb.CountReadsRequest(bytes=counts), timeout=STEP_SECONDS))
        assert error.reason == "INVALID_FIELD"
    assert await sql("SELECT count(*) FROM storage.traffic") == "0"


async def test_a_repository_has_its_own_limit(database_url: SecretStr, tmp_path: Path) -> None:
    """Over the default of the settings, lower or higher, or none at all; readers of the disk are told of it."""
    async with running_storage(database_url, tmp_path, storage_bandwidth_limit=100) as storage:
        for repository_id, bandwidth in ((1, 10), (2, 1000), (3, 0)):
            await storage.limit(repository_id, bandwidth=bandwidth)
        oids = {id_: await storage.write(id_, bytes(100)) for id_ in (1, 2, 3, 4)}
        for id_, oid in oids.items():
            call = storage.read(id_, oid)
            if id_ in (1, 4):
                assert (await failure(call)).reason == "BANDWIDTH_EXCEEDED"
            else:
                await call
        counts = pb.CountReadsRequest(bytes=dict.fromkeys(oids, 0))
        reply = await storage.stub.CountReads(counts, timeout=STEP_SECONDS)
        assert sorted(reply.used_up_repository_ids) == [1, 4]
        assert (await storage.usage(1)).bandwidth_bytes == 10


async def test_the_only_limit_is_told_to_readers_of_the_disk(storage: RunningStorage) -> None:
    """They count without waiting until any repository has a limit."""

    async def is_limited() -> bool:
        watching = pb.WatchRemovalsRequest()
        return (await storage.stub.WatchRemovals(watching, timeout=STEP_SECONDS)).is_bandwidth_limited

    assert not await is_limited()
    await storage.limit(1, bandwidth=10)
    assert await is_limited()
    await storage.limit(1, bandwidth=-1)
    assert not await is_limited()


async def test_the_limit_ends_with_the_day(
    database_url: SecretStr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal says how long the day lasts (UTC), and after its last second all goes on."""
    last = datetime.datetime(2026, 3, 1, 23, 59, 59, 100_000, datetime.UTC)
    monkeypatch.setattr(quota, "utc_now", lambda: last)
    async with running_storage(database_url, tmp_path, storage_bandwidth_limit=100) as storage:
        oid = await storage.write(1, bytes(100))
        error = await failure(storage.read(1, oid))
        assert (error.reason, error.metadata["retry_after"]) == ("BANDWIDTH_EXCEEDED", "1")
        monkeypatch.setattr(quota, "utc_now", lambda: last + datetime.timedelta(seconds=0.9))
        assert len(await storage.read(1, oid)) == 100
