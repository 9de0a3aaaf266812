"""Collection of garbage: what is told, what is removed and what is spared, and how it comes back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import grpc
import pytest
from prometheus_client import REGISTRY
from pydantic import SecretStr
from sqlalchemy import text
from towpath.storage.v1 import storage_service_pb2 as pb

from services.storage.index import collections
from tests.service.storage.conftest import Sql, connected
from tests.support.garbage import answer_to, collect, digest_of, header, refused, retained
from tests.support.storage import RunningStorage, StorageClient, failure, running_storage
from tests.support.waiting import STEP_SECONDS, until, until_answer

PRESENT, MISSING, REMOVED = pb.OBJECT_STATUS_PRESENT, pb.OBJECT_STATUS_MISSING, pb.OBJECT_STATUS_REMOVED
Call = grpc.aio.StreamStreamCall[pb.CollectGarbageRequest, pb.CollectGarbageResponse]
DAY_SECONDS = 24 * 3600
NOBODY = "0" * 64
MANY = """
    INSERT INTO storage.objects (repository_id, oid, size)
        SELECT 1, encode(sha256(n::text::bytea), 'hex'), 2 FROM generate_series(1, 1000) n;
    INSERT INTO storage.contents (store_id, oid, name) SELECT 1, oid, oid || '.0123456789abcdef' FROM storage.objects
"""
VERY_MANY = MANY.replace("1000", "60000")


async def announce(
    storage: StorageClient, *oids: str, intent: pb.Intent.ValueType = pb.INTENT_WRITE
) -> list[pb.ObjectStatus.ValueType]:
    """Announce a transfer of objects of one byte to or from the first repository, and return their status."""
    return [answer.status for answer in (await storage.stat(1, *((oid, 1) for oid in oids), intent=intent)).objects]


async def nothing_staged(sql: Sql) -> bool:
    """Return whether no list of retained objects is left."""
    counts = "SELECT (SELECT count(*) FROM storage.collections), (SELECT count(*) FROM storage.retained_oids)"
    return await sql(counts) == "0|0"


async def test_a_dry_run_tells_and_changes_nothing(storage: RunningStorage, sql: Sql) -> None:
    """The summary counts what would go, and what of it other repositories still need."""
    kept, garbage, shared = [await storage.write(1, os.urandom(size)) for size in (10, 200, 3000)]
    await storage.write(2, await storage.read(1, shared))
    before = await storage.records(1)
    times = {entry.oid: entry.created_at for entry in before}
    found = await collect(storage, [kept, NOBODY], listed=True)
    summary = found.summary
    assert (summary.garbage_count, summary.garbage_bytes, summary.freed_bytes) == (2, 3200, 200)
    assert (summary.held_count, summary.held_bytes, summary.grace_count) == (3, 3210, 0)
    assert (summary.retained_count, summary.retained_held_count, summary.returning_count) == (2, 1, 0)
    assert (summary.oldest_created_at, summary.newest_created_at) == (times[garbage], times[shared])
    assert [entry.oid for entry in found.garbage] == sorted([garbage, shared])
    assert found.result is None
    assert await storage.records(1) == before
    assert await nothing_staged(sql)


async def test_garbage_goes_to_the_bin(storage: RunningStorage, sql: Sql) -> None:
    """An object that is not retained is removed with its reason and can be undeleted; the rest is as it was."""
    kept, garbage = [await storage.write(1, data) for data in (b"kept", b"garbage")]
    found = await collect(storage, [kept], apply=True)
    assert found.result == pb.CollectionResult(removed_count=1, removed_bytes=7)
    assert found.progress == [found.result]
    error = await failure(storage.read(1, garbage))
    assert (error.reason, error.metadata["removal_reason"]) == ("OBJECT_REMOVED", "no ref names it")
    [tombstone] = [entry for entry in await storage.records(1) if entry.oid == garbage]
    assert (tombstone.is_collected, tombstone.removed_by) == (True, "alice")
    assert tombstone.bin_until.seconds - tombstone.removed_at.seconds == 30 * DAY_SECONDS
    assert await storage.read(1, kept) == b"kept"
    restored = await storage.restore(1, garbage)
    assert not restored.object.is_collected
    assert await storage.read(1, garbage) == b"garbage"
    # What was brought back by hand is not taken at once again.
    assert (await collect(storage, [kept], apply=True)).result == pb.CollectionResult()
    assert await nothing_staged(sql)


async def test_other_repositories_are_left_alone(storage: RunningStorage) -> None:
    """A collection of one repository removes nothing of another, and no bytes that another needs."""
    oid = await storage.write(1, b"data")
    await storage.write(2, b"data")
    await collect(storage, [NOBODY], apply=True)
    await storage.purge(1, oid)
    assert await storage.statuses(1, oid) == [MISSING]
    assert await storage.read(2, oid) == b"data"


@pytest.mark.shared_storage
@pytest.mark.parametrize(
    ("grace", "ago", "ages"), [(60, 0, (0, 61)), (0, 60, (0, 61)), (60, 1, (0, 61)), (60, 60, (110, 121))]
)
async def test_what_is_new_is_spared(
    storage: RunningStorage, repository_id: int, sql: Sql, grace: int, ago: int, ages: tuple[int, int]
) -> None:
    """An object that came since the listing began, or within the time of grace before it, is not removed.

    A push that was announced before the listing may change its ref after it.
    """
    new, old = await storage.write(repository_id, b"new"), await storage.write(repository_id, b"old")
    age = "UPDATE storage.objects SET created_at = now() - interval "
    for oid, seconds in zip((new, old), ages, strict=True):
        await sql(f"{age}'{seconds} s' WHERE oid = '{oid}'")
    found = await collect(storage, [NOBODY], apply=True, grace=grace, ago=ago, repository_id=repository_id)
    assert (found.summary.garbage_count, found.summary.grace_count) == (1, 1)
    assert await storage.statuses(repository_id, new, old) == [PRESENT, REMOVED]


async def test_what_was_announced_is_spared(storage: RunningStorage, sql: Sql) -> None:
    """A client that was told that an object is held has it for the time of grace from then on."""
    oid = await storage.write(1, b"data")
    await sql("UPDATE storage.objects SET created_at = now() - interval '1 day'")
    assert await announce(storage, oid) == [PRESENT]
    await collect(storage, [NOBODY], apply=True)
    assert await storage.statuses(1, oid) == [PRESENT]
    # An announcement soon after the recorded one is not recorded, and counts all the same.
    await sql("UPDATE storage.objects SET used_at = used_at - interval '8 seconds'")
    used_at = await sql("SELECT used_at FROM storage.objects")
    assert await announce(storage, oid) == [PRESENT]
    assert await sql("SELECT used_at FROM storage.objects") == used_at
    await collect(storage, [NOBODY], apply=True)
    assert await storage.statuses(1, oid) == [PRESENT]
    await sql("UPDATE storage.objects SET used_at = used_at - interval '1 day'")
    await collect(storage, [NOBODY], apply=True)
    assert await storage.statuses(1, oid) == [REMOVED]


async def test_what_is_read_is_spared(storage: RunningStorage, sql: Sql) -> None:
    """Reads and announced reads are recorded soon, once an hour, and not for what was removed."""
    read, batched, idle = [await storage.write(1, data) for data in (b"1", b"2", b"3")]
    await storage.read(1, read)
    await announce(storage, batched, intent=pb.INTENT_READ)
    used = "SELECT string_agg(oid, ' ' ORDER BY oid) FROM storage.objects WHERE used_at > now() - interval '1 minute'"
    await until_answer(" ".join(sorted([read, batched])), partial(sql, used))
    await sql("UPDATE storage.objects SET created_at = now() - interval '1 day', used_at = used_at - interval '50 min'")
    found = await collect(storage, [NOBODY], apply=True, grace=3600)
    assert found.result == pb.CollectionResult(removed_count=1, removed_bytes=1)
    assert await storage.statuses(1, read, batched, idle) == [PRESENT, PRESENT, REMOVED]
    await sql("UPDATE storage.objects SET used_at = now() - interval '61 minutes' WHERE used_at IS NOT NULL")
    await storage.read(1, read)
    await until_answer(read, partial(sql, used))


@pytest.mark.parametrize("size", [100, 2_000_000])
async def test_an_announcement_brings_garbage_back(storage: RunningStorage, size: int) -> None:
    """An announced object that lies in the bin as garbage is held again, without an upload."""
    data = os.urandom(size)
    oid = await storage.write(1, data)
    await collect(storage, [NOBODY], apply=True)
    assert await announce(storage, oid, NOBODY, intent=pb.INTENT_READ) == [REMOVED, MISSING]
    assert await announce(storage, oid, NOBODY) == [PRESENT, MISSING]
    assert await storage.read(1, oid) == data
    assert not (await storage.records(1))[0].HasField("removed_at")
    await collect(storage, [NOBODY], apply=True)
    assert await storage.statuses(1, oid) == [PRESENT]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_an_upload_brings_garbage_back(storage: RunningStorage, streamed: bool) -> None:
    """Garbage may be uploaded, as it may when its bytes are damaged."""
    oid = await storage.write(1, b"data", streamed=streamed)
    await collect(storage, [NOBODY], apply=True)
    await storage.write(1, b"data", streamed=streamed)
    assert await storage.read(1, oid) == b"data"
    [record] = await storage.records(1)
    assert not record.is_collected
    assert not record.removal_reason
    await until(lambda: len(storage.files()) == 1)


async def test_damaged_garbage_is_uploaded_again(storage: RunningStorage, sql: Sql) -> None:
    """An object that lies in the bin damaged is not held again by an announcement; an upload heals it."""
    oid = await storage.write(1, b"data")
    await collect(storage, [NOBODY], apply=True)
    await sql("UPDATE storage.contents SET is_doubted = true")
    assert await announce(storage, oid) == [MISSING]
    assert await storage.statuses(1, oid) == [REMOVED]
    await storage.write(1, b"data")
    assert await storage.read(1, oid) == b"data"


@pytest.mark.shared_storage
async def test_the_retained_come_back(storage: RunningStorage, repository_id: int) -> None:
    """Objects that an earlier list left out, and a later one names, are held again; what people removed is not."""
    back, gone, removed = [await storage.write(repository_id, data) for data in (b"1", b"2", b"3")]
    await storage.delete(repository_id, removed)
    await collect(storage, [NOBODY], apply=True, repository_id=repository_id)
    dry = await collect(storage, [back, removed], repository_id=repository_id)
    assert dry.summary.returning_count == 1
    assert await storage.statuses(repository_id, back, gone, removed) == [REMOVED, REMOVED, REMOVED]
    assert (
        await collect(storage, [back, removed], apply=True, repository_id=repository_id)
    ).result == pb.CollectionResult(returned_count=1)
    assert await storage.statuses(repository_id, back, gone, removed) == [PRESENT, REMOVED, REMOVED]


async def test_the_tombstone_goes_with_the_bytes(database_url: SecretStr, tmp_path: Path) -> None:
    """Nothing is left of garbage that leaves the bin; what people removed stays removed."""
    async with running_storage(database_url, tmp_path, storage_bin_days=1 / DAY_SECONDS) as storage:
        garbage, removed = await storage.write(1, b"garbage"), await storage.write(1, b"removed")
        await storage.delete(1, removed)
        await collect(storage, [NOBODY], apply=True)
        await until(lambda: storage.files() == [])
        await until_answer([MISSING, REMOVED], lambda: storage.statuses(1, garbage, removed))


async def test_without_a_bin_garbage_goes_at_once(database_url: SecretStr, tmp_path: Path) -> None:
    """Nothing is left of garbage, and it may be uploaded again."""
    async with running_storage(database_url, tmp_path, storage_bin_days=0) as storage:
        garbage, kept = await storage.write(1, b"garbage"), await storage.write(1, b"kept")
        assert (await collect(storage, [kept], apply=True)).result == pb.CollectionResult(
            removed_count=1, removed_bytes=7
        )
        assert await storage.statuses(1, garbage, kept) == [MISSING, PRESENT]
        await until(lambda: storage.files() == [storage.path(kept)])
        await storage.write(1, b"garbage")
        assert await storage.read(1, garbage) == b"garbage"


async def test_what_people_do_with_garbage(storage: RunningStorage) -> None:
    """Garbage can be purged; a removal bans it; and a copy to a repository where it is garbage brings it back."""
    purged, banned, copied = [await storage.write(1, data) for data in (b"1", b"2", b"3")]
    await storage.write(2, b"3")
    await collect(storage, [NOBODY], apply=True)
    assert not (await storage.purge(1, purged)).object.HasField("bin_until")
    assert (await failure(storage.purge(1, purged))).reason == "OBJECT_NOT_FOUND"
    tombstone = await storage.delete(1, banned, reason="a licence")
    assert (tombstone.is_collected, tombstone.removal_reason) == (False, "a licence")
    assert await announce(storage, purged, banned) == [MISSING, REMOVED]
    assert (await failure(storage.write(1, b"2"))).reason == "OBJECT_REMOVED"
    assert list((await storage.copy(2, 1, copied)).copied_oids) == [copied]
    assert await storage.read(1, copied) == b"3"


async def test_what_was_copied_is_spared(storage: RunningStorage, sql: Sql) -> None:
    """A copy onto an object that the repository holds already is a use of it."""
    oid = await storage.write(1, b"data")
    await storage.write(2, b"data")
    await sql("UPDATE storage.objects SET created_at = now() - interval '1 day'")
    await storage.copy(2, 1, oid)
    await collect(storage, [NOBODY], apply=True, grace=3600)
    await collect(storage, [NOBODY], repository_id=2, apply=True, grace=3600)
    assert await storage.statuses(1, oid) == [PRESENT]
    assert await storage.statuses(2, oid) == [REMOVED]


@pytest.mark.shared_storage
@pytest.mark.parametrize(("most", "is_refused"), [(49, True), (50, False)])
@pytest.mark.parametrize("sizes", [(1, 1), (20, 1)], ids=["count", "bytes"])
async def test_too_much_at_once(
    storage: RunningStorage, repository_id: int, sql: Sql, sizes: tuple[int, int], most: int, is_refused: bool
) -> None:
    """More than the percentage, of the objects or of the bytes, removes nothing; a dry run tells it all the same."""
    garbage, kept = [await storage.write(repository_id, os.urandom(size)) for size in sizes]
    more = (9, 10) if sizes[0] > sizes[1] else ()
    kept_oids = [kept, *[await storage.write(repository_id, os.urandom(size)) for size in more]]
    assert (await collect(storage, kept_oids, most=most, repository_id=repository_id)).summary.garbage_count == 1
    call = collect(storage, kept_oids, most=most, apply=True, repository_id=repository_id)
    if is_refused:
        error = await refused(call)
        assert (error.status.name, error.reason) == ("FAILED_PRECONDITION", "TOO_MUCH_GARBAGE")
        assert "50.0 %" in error.message
    else:
        await call
    assert await storage.statuses(repository_id, garbage) == [PRESENT if is_refused else REMOVED]
    assert await nothing_staged(sql)


async def test_metrics_count_what_collections_did(storage: RunningStorage) -> None:
    """Those that were to remove something, and why one was refused; a dry run counts nothing."""
    for size in (5, 7):
        await storage.write(1, bytes(size))
    before = _counted()
    await collect(storage, [NOBODY])
    await refused(collect(storage, [NOBODY], apply=True, most=99))
    assert _moved(before) == {"refused": 1, "TOO_MUCH_GARBAGE": 1}
    await collect(storage, [NOBODY], apply=True)
    assert _moved(before) == {"refused": 1, "TOO_MUCH_GARBAGE": 1, "completed": 1, "objects": 2, "bytes": 12}
    await collect(storage, [NOBODY], apply=True)
    assert _moved(before) == {"refused": 1, "TOO_MUCH_GARBAGE": 1, "completed": 2, "objects": 2, "bytes": 12}


def _counted() -> dict[str, float]:
    """Return the metrics of collections by their last label, or by what they count."""
    name = "towpath_garbage_{}_total"
    series = {
        **{result: (name.format("collections"), {"result": result}) for result in ("completed", "refused")},
        **{
            reason: (name.format("collections_refused"), {"reason": reason})
            for reason in ("TOO_MUCH_GARBAGE", "COLLECTION_RUNNING")
        },
        **{what: (name.format(f"removed_{what}"), {}) for what in ("objects", "bytes")},
    }
    found = {key: REGISTRY.get_sample_value(*sample) for key, sample in series.items()}
    return {key: value for key, value in found.items() if value is not None}


def _moved(before: dict[str, float]) -> dict[str, float]:
    after = _counted()
    assert after.keys() == before.keys()
    return {key: value - before[key] for key, value in after.items() if value != before[key]}


def _end(oids: Iterable[str], *, count: int | None = None) -> pb.CollectGarbageRequest:
    listed = list(oids)
    end = pb.RetainedEnd(count=len(listed) if count is None else count, digest=digest_of(listed))
    return pb.CollectGarbageRequest(end=end)


def _some(*oids: str) -> pb.CollectGarbageRequest:
    return pb.CollectGarbageRequest(retained=pb.RetainedObjects(oids=oids))


_A, _B = "a" * 64, "b" * 64


@pytest.mark.shared_storage
@pytest.mark.parametrize(
    ("messages", "reason", "named"),
    [
        ([header(1, apply=True), _some(_A)], "INVALID_FIELD", "end"),
        ([header(1, apply=True)], "INVALID_FIELD", "end"),
        ([header(1, apply=True), _end([])], "INVALID_FIELD", "end.count"),
        ([header(1, apply=True), _some(_A), _end([_A], count=2)], "INVALID_FIELD", "end.count"),
        ([header(1, apply=True), _some(_A), _end([_B])], "INVALID_FIELD", "end.digest"),
        ([header(1, apply=True), _some(_B, _A), _end([_B, _A])], "INVALID_FIELD", "retained.oids"),
        ([header(1, apply=True), _some(_A, _A), _end([_A, _A])], "INVALID_FIELD", "retained.oids"),
        ([header(1, apply=True), _some(_A), _some(_A), _end([_A, _A])], "INVALID_FIELD", "retained.oids"),
        ([header(1, apply=True), _some(), _end([_A])], "INVALID_FIELD", "retained.oids"),
        ([header(1, apply=True), _some(*[_A] * 10_001)], "INVALID_FIELD", "retained.oids"),
        ([header(1, apply=True), _some("A" * 64), _end(["A" * 64])], "INVALID_OID", "oid"),
        ([header(1, apply=True, ago=DAY_SECONDS + 1), *retained([_A])], "INVALID_FIELD", "terms.listed_seconds_ago"),
        ([header(1, apply=True, ago=-1), *retained([_A])], "INVALID_FIELD", "terms.listed_seconds_ago"),
        ([header(1, apply=True, grace=-1), *retained([_A])], "INVALID_FIELD", "terms.grace_seconds"),
        ([header(1, apply=True, most=0), *retained([_A])], "INVALID_FIELD", "terms.most_percent"),
        ([header(1, apply=True, most=101), *retained([_A])], "INVALID_FIELD", "terms.most_percent"),
        ([header(1, apply=True, reason=""), *retained([_A])], "INVALID_FIELD", "reason"),
        ([header(0, apply=True), *retained([_A])], "INVALID_FIELD", "repository_id"),
        ([*retained([_A])], "MALFORMED_STREAM", "the first message"),
        ([], "MALFORMED_STREAM", "the first message"),
        ([header(1, apply=True), header(1, apply=True)], "MALFORMED_STREAM", "a message after the first"),
    ],
)
async def test_a_list_that_is_not_whole_removes_nothing(
    storage: RunningStorage, sql: Sql, messages: list[pb.CollectGarbageRequest], reason: str, named: str
) -> None:
    """A list that is cut off, empty, out of order, wrong or stale is refused by the name of the field."""
    oid = await storage.write(1, b"data")
    error = await refused(answer_to(storage.address, messages))
    assert (error.status.name, error.reason) == ("INVALID_ARGUMENT", reason)
    assert error.message.startswith(f"{named}:")
    assert await storage.statuses(1, oid) == [PRESENT]
    assert await nothing_staged(sql)


async def test_many_objects(storage: RunningStorage, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    """More objects than a page, and than a transaction, are told and removed, and come back."""
    monkeypatch.setattr(collections, "PAGE", 70)
    await sql(MANY)
    oids = [entry.oid for entry in await storage.records(1)]
    kept = oids[::5]
    found = await collect(storage, kept, apply=True, listed=True)
    assert (found.summary.garbage_count, found.summary.held_count) == (800, 1000)
    assert found.summary.freed_bytes == 1600
    assert [entry.oid for entry in found.garbage] == [oid for oid in oids if oid not in set(kept)]
    assert found.result == pb.CollectionResult(removed_count=800, removed_bytes=1600)
    assert (
        max(
            later.removed_count - earlier.removed_count
            for earlier, later in zip(found.progress, found.progress[1:], strict=False)
        )
        <= 200
    )
    assert (await collect(storage, oids, apply=True)).result == pb.CollectionResult(returned_count=800)
    assert not any(entry.HasField("removed_at") for entry in await storage.records(1))
    assert await nothing_staged(sql)


@pytest.mark.drill
async def test_a_large_repository(storage: RunningStorage, sql: Sql) -> None:
    """Postgres has no statistics of a list that has just come, or wrong ones, and must not compare each oid with it."""
    await sql(VERY_MANY)
    oids = (await sql("SELECT string_agg(oid, ' ' ORDER BY oid) FROM storage.objects")).split()
    kept = oids[:30_000]
    found = await collect(storage, kept, apply=True, listed=True)
    assert [entry.oid for entry in found.garbage] == oids[30_000:]
    assert found.result == pb.CollectionResult(removed_count=30_000, removed_bytes=60_000)
    # The statistics of an empty table, as autovacuum may leave them.
    await until(lambda: nothing_staged(sql))
    await sql("ANALYZE storage.retained_oids")
    assert (await collect(storage, oids, apply=True)).result == pb.CollectionResult(returned_count=30_000)
    await until(lambda: nothing_staged(sql))


async def test_one_collection_at_a_time(storage: RunningStorage, database_url: SecretStr, sql: Sql) -> None:
    """A second collection of the repository is refused while one goes on; one of another repository is not."""
    oid = await storage.write(1, b"data")
    async with connected(database_url) as connection:
        await connection.execute(text("SELECT FROM storage.objects WHERE oid = :oid FOR UPDATE"), {"oid": oid})
        first = asyncio.ensure_future(collect(storage, [NOBODY], apply=True))
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        await until_answer("1", partial(sql, waiting))
        error = await refused(collect(storage, [NOBODY]))
        assert (error.status.name, error.reason) == ("ABORTED", "COLLECTION_RUNNING")
        await collect(storage, [NOBODY], repository_id=2)
    assert (await first).result == pb.CollectionResult(removed_count=1, removed_bytes=4)
    await collect(storage, [NOBODY])


async def _tell_nobody(call: Call) -> None:
    """Send a list that retains nothing, and take the summary."""
    for message in retained([NOBODY]):
        await call.write(message)
    await call.done_writing()
    answer = await call.read()
    assert isinstance(answer, pb.CollectGarbageResponse)
    assert answer.HasField("summary")


async def test_a_collection_begins_with_its_header(storage: RunningStorage, sql: Sql) -> None:
    """A caller that sends its list slowly keeps one collection of its repository, and not all of the service."""
    call = storage.stub.CollectGarbage(timeout=STEP_SECONDS)
    await call.write(header(1))
    await until_answer("1", partial(sql, "SELECT count(*) FROM storage.collections"))
    error = await refused(collect(storage, [NOBODY]))
    assert error.reason == "COLLECTION_RUNNING"
    await collect(storage, [NOBODY], repository_id=2)
    await _tell_nobody(call)


async def test_the_connection_of_a_collection_is_lost(storage: RunningStorage, sql: Sql) -> None:
    """A collection whose lock is gone removes what is garbage all the same, and ends as one of an outage does."""
    oid = await storage.write(1, b"data")
    call = storage.stub.CollectGarbage(timeout=STEP_SECONDS)
    await call.write(header(1, apply=True))
    await until_answer("1", partial(sql, "SELECT count(*) FROM storage.collections"))
    await sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_try_advisory_lock(%'")
    await _tell_nobody(call)
    error = await failure(_rest(call))
    assert error.reason == "UNAVAILABLE"
    assert await storage.statuses(1, oid) == [REMOVED]
    assert (await collect(storage, [NOBODY])).summary.held_count == 0


async def _rest(call: Call) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


async def test_what_took_too_long_removes_nothing_more(storage: RunningStorage, sql: Sql) -> None:
    """A collection whose list has been forgotten meanwhile must not take everything for garbage."""
    oid = await storage.write(1, b"data")
    await sql(
        "CREATE FUNCTION storage.forget() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN UPDATE storage.collections SET is_ended = true; DELETE FROM storage.retained_oids; RETURN NULL; END';"
        "CREATE TRIGGER forget AFTER INSERT ON storage.retained_oids EXECUTE FUNCTION storage.forget()"
    )
    error = await refused(collect(storage, [oid], apply=True))
    assert (error.status.name, error.reason) == ("ABORTED", "COLLECTION_RUNNING")
    assert await storage.statuses(1, oid) == [PRESENT]


async def test_only_administration_collects(database_url: SecretStr, tmp_path: Path) -> None:
    """A caller without the secret of administration is refused."""
    async with running_storage(
        database_url, tmp_path, service_secret="between-the-services", storage_admin_secret="for-administration-alone"
    ) as storage:
        asked = [header(1), *retained([NOBODY])]
        error = await refused(answer_to(storage.address, asked, secret=SecretStr("between-the-services")))
        assert error.status.name == "UNAUTHENTICATED"
