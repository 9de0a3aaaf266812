"""Counters of usage: triggers count whatever statement changes what is held, and the sum is exact at every moment."""

import asyncio
import datetime
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.concurrency import periodic
from services.database.migrations import create_operator_engine, migrate, upgrade
from services.storage.capacity import quota, usage_keeper
from services.storage.index import bins, usage
from services.storage.index.schema import SCHEMA
from tests.service.storage.conftest import Sql, connected
from tests.service.storage.test_quota import named, some_bytes
from tests.support.storage import RunningStorage, failure, oid_of, refusal, running_storage
from tests.support.stores import Stores
from tests.support.waiting import STEP_SECONDS, until, until_answer

DAY = datetime.timedelta(days=1)

_COUNTED = """
    SELECT coalesce(string_agg(concat_ws(':', repository_id, object_count, object_bytes), ' ' ORDER BY repository_id),
        '')
    FROM (
        SELECT repository_id, sum(object_count) AS object_count, sum(object_bytes) AS object_bytes
        FROM (
            SELECT repository_id, object_count, object_bytes FROM storage.usage_totals
            UNION ALL SELECT repository_id, object_count, object_bytes FROM storage.usage_deltas
        ) AS parts
        GROUP BY 1 HAVING sum(object_count) <> 0 OR sum(object_bytes) <> 0
    ) AS counted
"""
_HELD = """
    SELECT coalesce(string_agg(concat_ws(':', repository_id, object_count, object_bytes), ' ' ORDER BY repository_id),
        '')
    FROM (
        SELECT repository_id, count(*) AS object_count, sum(size) AS object_bytes
        FROM storage.objects WHERE removed_at IS NULL GROUP BY 1
    ) AS held
"""
_DELTAS = "SELECT count(*) FROM storage.usage_deltas"


async def counters_are_right(sql: Sql) -> str:
    """Check the counters against the objects, in one snapshot, and return them."""
    both = await sql(f"SELECT ({_COUNTED}) || ' / ' || ({_HELD})")
    counted, _, held = both.partition(" / ")
    assert counted == held
    return counted


async def test_the_counters_are_exact_after_a_storm(
    monkeypatch: pytest.MonkeyPatch, database_url: SecretStr, tmp_path: Path, sql: Sql
) -> None:
    """Uploads of all kinds, removals, returns, purges, copies and deletions of repositories at once leave no error."""
    # Folding goes on all the time.
    monkeypatch.setattr(usage_keeper, "INTERVAL_SECONDS", 0.01)
    async with running_storage(database_url, tmp_path) as storage:
        await _storm(storage, sql)


async def _storm(storage: RunningStorage, sql: Sql) -> None:
    chance = random.Random(28)  # noqa: S311 - the same storm each time
    files = [os.urandom(chance.randrange(1, 3000)) for _ in range(40)] + [some_bytes(1_500_000)]

    async def step(number: int) -> None:
        data, repository_id = chance.choice(files), chance.randrange(1, 5)
        oid = oid_of(data)
        kinds: list[Callable[[], Awaitable[object]]] = [
            lambda: storage.write(repository_id, data),
            lambda: storage.write(repository_id, data, streamed=True),
            lambda: storage.delete(repository_id, oid),
            lambda: storage.restore(repository_id, oid, bytes_required=False),
            lambda: storage.purge(repository_id, oid),
            lambda: storage.copy(repository_id, repository_id % 4 + 1, oid),
        ]
        error = await refusal(kinds[number % len(kinds)]())
        expected = {"OBJECT_REMOVED", "OBJECT_NOT_FOUND", "REPOSITORY_NOT_FOUND"}
        assert error is None or error.reason in expected

    for start in range(0, 600, 60):
        await asyncio.gather(*(step(number) for number in range(start, start + 60)))
        await counters_are_right(sql)
    await storage.delete_repository(1)
    counted = await counters_are_right(sql)
    assert counted
    assert not counted.startswith("1:")
    await until_answer("0", lambda: sql(_DELTAS))
    assert await counters_are_right(sql) == counted


def _told(repository_id: int) -> list[float | None]:
    """Return the metrics of a repository: objects, bytes, bytes in the bin; None where there is no series."""
    labels = {"repository_id": str(repository_id)}
    names = ("towpath_repository_objects", "towpath_repository_bytes", "towpath_repository_bin_bytes")
    return [REGISTRY.get_sample_value(name, labels) for name in names]


async def test_metrics_tell_what_is_held_after_each_change(
    monkeypatch: pytest.MonkeyPatch, database_url: SecretStr, tmp_path: Path
) -> None:
    """Upload, copy, removal, undelete and purge; a repository that holds nothing any more has no series."""
    monkeypatch.setattr(periodic, "_REFRESH_SECONDS", 0.05)
    async with running_storage(database_url, tmp_path, storage_metrics_listen="127.0.0.1:0") as storage:

        async def tells(one: list[float | None], two: list[float | None]) -> None:
            async def told() -> list[list[float | None]]:
                return [_told(1), _told(2)]

            await until_answer([one, two], told)

        nothing: list[float | None] = [None, None, None]
        await tells(nothing, nothing)
        oid = await storage.write(1, b"12345")
        await storage.write(1, bytes(7))
        await tells([2, 12, 0], nothing)
        await storage.copy(1, 2, oid)
        await tells([2, 12, 0], [1, 5, 0])
        await storage.delete(1, oid)
        await storage.delete(2, oid)
        await tells([1, 7, 5], [0, 0, 5])
        await storage.restore(1, oid)
        await tells([2, 12, 0], [0, 0, 5])
        await storage.purge(2, oid)
        await tells([2, 12, 0], nothing)
        # An object without bytes is one as well.
        await storage.write(2, b"")
        await tells([2, 12, 0], [1, 0, 0])
        await storage.delete_repository(1)
        await tells(nothing, [1, 0, 0])


async def test_metrics_read_the_bins_and_no_other_objects(database_url: SecretStr, sql: Sql) -> None:
    """Of 20,000 held objects and 3 in bins, Postgres reads the rows of these 3."""
    await sql(
        "INSERT INTO storage.objects (repository_id, oid, size)"
        " SELECT 1 + n % 2, encode(sha256(n::text::bytea), 'hex'), 5 FROM generate_series(1, 20000) AS n;"
        " UPDATE storage.objects SET removed_at = now(), removal_reason = 'x', bin_until = now() + interval '1 day'"
        " WHERE oid IN (SELECT oid FROM storage.objects WHERE repository_id = 1 LIMIT 3)"
    )
    await sql("VACUUM ANALYZE storage.objects")
    async with connected(database_url) as connection:
        held = await usage.used_by_all_repositories(connection)
        assert held == {1: usage.Used(9_997, 49_985), 2: usage.Used(10_000, 50_000)}
        assert await _rows_read(connection) == 0
        assert await bins.bytes_in_bins(connection) == {1: 15}
        assert await _rows_read(connection) == 3


async def _rows_read(connection: AsyncConnection) -> int:
    """Return the number of rows of objects that this transaction has read."""
    statement = text(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
        " WHERE schemaname = 'storage' AND relname = 'objects'"
    )
    return int(await connection.scalar(statement) or 0)


async def test_objects_in_two_stores_count_once(storage: RunningStorage, sql: Sql) -> None:
    """The way past the journal counts too, and a copy of the bytes counts nothing."""
    await Stores(storage).fill("second", "first")
    await storage.write(1, b"12345")
    assert await counters_are_right(sql) == "1:1:5"


@pytest.mark.empty_database
async def test_what_was_held_before_the_migration_is_counted(database_url: SecretStr, sql: Sql, tmp_path: Path) -> None:
    """Objects of the version before count, tombstones do not; growth begins with the migration."""
    engine = create_operator_engine(database_url, "test")
    try:
        async with engine.begin() as connection:
            await upgrade(connection, SCHEMA, "0008")
    finally:
        await engine.dispose()
    await sql(
        "INSERT INTO storage.objects (repository_id, oid, size, removed_at, removal_reason)"
        " VALUES (1, repeat('a', 64), 5, NULL, NULL), (1, repeat('b', 64), 7, NULL, NULL),"
        " (2, repeat('c', 64), 9, now(), 'x')"
    )
    await migrate(database_url, SCHEMA)
    assert await counters_are_right(sql) == "1:2:12"
    # A service of the version before knows no counters.
    await sql("INSERT INTO storage.objects (repository_id, oid, size) VALUES (2, repeat('d', 64), 3)")
    await sql("UPDATE storage.objects SET size = 6 WHERE size = 5")
    assert await counters_are_right(sql) == "1:2:13 2:1:3"
    async with running_storage(database_url, tmp_path) as storage:
        usages = [await storage.usage(id_) for id_ in (1, 2)]
        assert [usage.growth_bytes for usage in usages] == [1, 3]


async def test_growth_is_told_of_thirty_days(
    database_url: SecretStr, tmp_path: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day has a row if something changed by its end, and rows are kept for 400 days."""
    now = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
    days = "SELECT string_agg(day || ':' || object_bytes, ' ' ORDER BY day) FROM storage.daily_usage"
    for passed, size, rows, growth in (
        (0, 10, "2026-03-01:10", 10),
        (20, 5, "2026-03-01:10 2026-03-21:15", 15),
        (30, 0, "2026-03-01:10 2026-03-21:15", 5),
        (49, 0, "2026-03-01:10 2026-03-21:15", 5),
        (50, 0, "2026-03-01:10 2026-03-21:15", 0),
        (430, 1, "2026-03-21:15 2027-05-05:16", 1),
    ):
        monkeypatch.setattr(quota, "utc_now", lambda moment=now + passed * DAY: moment)
        async with running_storage(database_url, tmp_path) as storage:
            if size:
                await storage.write(1, os.urandom(size))
        # A service records at its start.
        async with running_storage(database_url, tmp_path) as storage:
            await until_answer(rows, lambda: sql(days))
            assert (await storage.usage(1)).growth_bytes == growth


async def test_what_was_held_is_told_day_by_day(
    database_url: SecretStr, tmp_path: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day without a row ended like the day before, and today is as of now."""
    now = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
    monkeypatch.setattr(quota, "utc_now", lambda: now)
    async with running_storage(database_url, tmp_path) as storage:
        await sql(
            "INSERT INTO storage.daily_usage (repository_id, day, object_count, object_bytes) VALUES"
            " (1, '2025-12-01', 1, 10), (1, '2026-02-26', 2, 30), (1, '2026-02-28', 1, 20), (2, '2026-02-27', 9, 9)"
        )
        await storage.write(1, bytes(5))
        by_day = [(used.day, used.object_count, used.object_bytes) for used in await _by_day(storage, days=5)]
        assert by_day == [
            ("2026-02-25", 1, 10),
            ("2026-02-26", 2, 30),
            ("2026-02-27", 2, 30),
            ("2026-02-28", 1, 20),
            ("2026-03-01", 1, 5),
        ]
        assert await _by_day(storage, days=2) == (await _by_day(storage, days=5))[3:]
        assert [used.day for used in await _by_day(storage, days=1)] == ["2026-03-01"]
        assert await _by_day(storage, days=0) == []
        whole = await _by_day(storage, days=366)
        assert (len(whole), whole[0]) == (366, pb.DayUsage(day="2025-03-01"))
        assert [used.object_bytes for used in await _by_day(storage, repository_id=3, days=3)] == [0, 0, 0]


async def _by_day(storage: RunningStorage, *, days: int, repository_id: int = 1) -> list[pb.DayUsage]:
    request = pb.GetUsageRequest(repository_ids=[repository_id], days=days)
    return list((await storage.stub.GetUsage(request, timeout=STEP_SECONDS)).repositories[0].by_day)


async def test_the_largest_objects_are_told(storage: RunningStorage) -> None:
    """Of one repository, the largest first, without those that were removed."""
    oids = {size: await storage.write(1, bytes(size)) for size in (5, 1, 9, 7)}
    await storage.delete(1, oids[9])
    await storage.write(2, bytes(100))
    assert [stored.oid for stored in (await storage.usage(1, largest=2)).largest] == [oids[7], oids[5]]
    assert not (await storage.usage(1)).largest
    for wrong in (
        pb.GetUsageRequest(repository_ids=[1, 2], largest=1),
        pb.GetUsageRequest(repository_ids=[1], largest=-1),
        pb.GetUsageRequest(repository_ids=[1, 2], days=1),
        pb.GetUsageRequest(repository_ids=[1], days=-1),
        pb.GetUsageRequest(repository_ids=[1], days=367),
    ):
        assert (await failure(storage.stub.GetUsage(wrong, timeout=STEP_SECONDS))).reason == "INVALID_FIELD"


async def _events(storage: RunningStorage) -> list[pb.QuotaEvent]:
    return list((await storage.stub.ListQuotaEvents(pb.ListQuotaEventsRequest(), timeout=STEP_SECONDS)).events)


async def _acknowledge(storage: RunningStorage, events: list[pb.QuotaEvent]) -> None:
    await storage.stub.AcknowledgeQuotaEvents(pb.AcknowledgeQuotaEventsRequest(events=events), timeout=STEP_SECONDS)


async def test_each_crossing_of_a_level_is_an_event(storage: RunningStorage, sql: Sql) -> None:
    """From 80 % on, and again when the quota is full; an event is told until it is acknowledged."""
    await storage.limit(1, quota=100)
    await storage.limit(2, quota=100)
    # Its eighty percent are more than the database's numbers hold.
    await storage.limit(3, quota=2**62)
    await storage.write(3, b"x")
    await storage.write(2, bytes(79))
    oid = await storage.write(1, bytes(80))
    await until(lambda: _events(storage))
    [event] = await _events(storage)
    assert (event.repository_id, event.level) == (1, pb.QUOTA_LEVEL_WARNED)
    assert (event.used_bytes, event.quota_bytes) == (80, 100)
    await _acknowledge(storage, [event])
    assert await _events(storage) == []
    await storage.write(1, b"x" * 20)
    await until(lambda: _events(storage))
    [event] = await _events(storage)
    assert (event.level, event.used_bytes) == (pb.QUOTA_LEVEL_EXCEEDED, 100)
    await _acknowledge(storage, [event])
    # Below 80 % the repository leaves the levels, and the next crossing is another event.
    await storage.delete(1, oid)
    await until_answer("0", lambda: sql("SELECT count(*) FROM storage.quota_levels"))
    await storage.restore(1, oid)
    await until(lambda: _events(storage))
    [again] = await _events(storage)
    assert again.reached_at.ToNanoseconds() > event.reached_at.ToNanoseconds()
    # An old acknowledgement says nothing about a later event.
    await _acknowledge(storage, [event])
    assert await _events(storage) == [again]


async def test_a_refused_upload_is_one_event(storage: RunningStorage) -> None:
    """Whoever tries again and again is told of once."""
    await storage.limit(1, quota=100)
    for _ in range(3):
        assert (await failure(storage.announce(1, named(101)))).reason == "QUOTA_EXCEEDED"
    [event] = await _events(storage)
    assert (event.level, event.used_bytes) == (pb.QUOTA_LEVEL_EXCEEDED, 0)
    await _acknowledge(storage, [event])
    assert (await failure(storage.write(1, bytes(101)))).reason == "QUOTA_EXCEEDED"
    assert await _events(storage) == []
