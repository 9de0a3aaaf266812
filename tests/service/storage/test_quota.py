"""Quotas of repositories: what fits is stored, whoever asks; the rest is refused, and counts nothing."""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import text
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.rpc.options import CHUNK_BYTES
from services.database.transactions import Database
from services.storage.capacity import reservations
from services.storage.capacity.limits import LimitCache
from services.storage.capacity.reservations import QuotaReservations
from services.storage.index import client_uploads
from tests.service.storage.conftest import Sql
from tests.support.direct import direct_storage
from tests.support.garbage import collect
from tests.support.seaweedfs import SeaweedFS
from tests.support.storage import (
    RunningStorage,
    chunks_of,
    failure,
    finish,
    oid_of,
    refusal,
    running_storage,
    two_storages,
    upload,
)
from tests.support.waiting import STEP_SECONDS, until, until_answer

PRESENT, MISSING = pb.OBJECT_STATUS_PRESENT, pb.OBJECT_STATUS_MISSING
OVER_QUOTA, DAMAGED = pb.OBJECT_STATUS_OVER_QUOTA, pb.OBJECT_STATUS_DAMAGED
ALICE, BOB = 11, 12
MEGABYTE = 1_000_000
CONNECTIONS = 8

RESERVED = "SELECT count(*) FROM storage.reservations"


def some_bytes(size: int) -> bytes:
    """Return bytes of this size that no other object has."""
    return os.urandom(16) + bytes(size - 16)


def named(size: int) -> tuple[str, int]:
    """Return an object of this size to announce."""
    return oid_of(os.urandom(16)), size


async def quota_of(storage: RunningStorage) -> int:
    """Return the quota of the first repository."""
    return (await storage.usage(1)).quota_bytes


@pytest.mark.parametrize("is_announced", [True, False], ids=["announced", "unannounced"])
async def test_of_twelve_files_ten_are_stored(
    database_url: SecretStr, tmp_path: Path, sql: Sql, *, is_announced: bool
) -> None:
    """Eight connections bring twelve files of 2 MB to two services: the quota of 20 MB holds exactly ten."""
    files = [some_bytes(2 * MEGABYTE) for _ in range(12)]
    waiting = list(enumerate(files))
    refused: list[str] = []
    async with two_storages(database_url, tmp_path, storage_quota=20 * MEGABYTE) as services:

        async def bring() -> None:
            while waiting:
                number, data = waiting.pop()
                # The service that takes the bytes is another one than that which was asked.
                error = (
                    await refusal(services[number % 2].announce(1, (oid_of(data), len(data)))) if is_announced else None
                )
                error = error or await refusal(services[1 - number % 2].write(1, data))
                if error is not None:
                    refused.append(error.message)

        await asyncio.gather(*(bring() for _ in range(CONNECTIONS)))
        usage = await services[0].usage(1)
    assert (usage.object_count, usage.object_bytes, usage.reserved_bytes) == (10, 20 * MEGABYTE, 0)
    assert refused == ["20 MB of 20 MB used"] * 2
    assert await sql("SELECT count(*) FROM storage.contents") == "10"


async def test_of_twelve_direct_files_ten_are_stored(
    seaweedfs: SeaweedFS, database_url: SecretStr, tmp_path: Path
) -> None:
    """The same with clients at the store itself: what is not reserved gets no address, and is judged on its way."""
    files = {oid_of(data): data for data in (some_bytes(10_000) for _ in range(12))}
    async with direct_storage(seaweedfs, database_url, tmp_path, storage_quota=100_000) as direct:
        await direct.wait_signing(pb.INTENT_WRITE)
        signed: list[str] = []

        async def bring(some: list[str]) -> None:
            keys = [(oid, len(files[oid])) for oid in some]
            stats = await direct.found_and_signed(1, *keys, intent=pb.INTENT_WRITE)
            for oid, stat in zip(some, stats, strict=True):
                if stat.HasField("signed"):
                    signed.append(oid)
                    assert await direct.put(stat.signed, files[oid]) == 200
                    await direct.confirm(1, files[oid])
                elif stat.status == MISSING:
                    await refusal(direct.service.write(1, files[oid]))

        oids = list(files)
        await asyncio.gather(*(bring(oids[start : start + 3]) for start in range(0, 12, 3)))
        usage = await direct.service.usage(1)
        # Of nothing that is left, a tenth has room for a second one.
        assert (len(signed), usage.object_bytes, usage.reserved_bytes) == (1, 100_000, 0)


async def test_a_direct_upload_is_judged_when_it_is_confirmed(
    seaweedfs: SeaweedFS, database_url: SecretStr, tmp_path: Path, sql: Sql
) -> None:
    """An address that outlives its reservation brings no more than fits, and its bytes are given up."""
    async with direct_storage(seaweedfs, database_url, tmp_path, storage_quota=100_000) as direct:
        await direct.wait_signing(pb.INTENT_WRITE)
        late = some_bytes(6_000)
        signed = await direct.upload_url(1, late, seconds=3600)
        assert signed.expires_at.seconds <= time.time() + 601
        assert await direct.put(signed, late) == 200
        await sql("DELETE FROM storage.reservations")
        await direct.service.write(1, some_bytes(95_000))
        error = await failure(direct.confirm(1, late))
        assert (error.reason, error.message) == ("QUOTA_EXCEEDED", "95 kB of 100 kB used")
        await until_answer([], lambda: direct.stored(late))
        assert (await direct.service.usage(1)).object_bytes == 95_000


async def test_what_is_never_confirmed_is_bounded(
    seaweedfs: SeaweedFS, database_url: SecretStr, tmp_path: Path, sql: Sql
) -> None:
    """Its bytes lie in the bucket for a day, ten minutes of which are reserved; what goes beyond is relayed."""
    async with direct_storage(seaweedfs, database_url, tmp_path, storage_quota=100_000) as direct:
        await direct.wait_signing(pb.INTENT_WRITE)

        async def signs(size: int) -> bool:
            [stat] = await direct.found_and_signed(1, named(size), intent=pb.INTENT_WRITE)
            await sql("DELETE FROM storage.reservations")
            assert stat.status == MISSING
            return stat.HasField("signed")

        assert [await signs(4_000) for _ in range(3)] == [True, True, False]
        # The same object again and again is a name of its own each time.
        data = some_bytes(1_500)
        asked = [await direct.sign(1, (oid_of(data), 1_500), intent=pb.INTENT_WRITE) for _ in range(2)]
        assert [bool(signed.url) for [signed] in asked] == [True, False]


async def test_unconfirmed_uploads_are_counted(
    seaweedfs: SeaweedFS, database_url: SecretStr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their number is bounded without a quota too, and a confirmation makes room for another."""
    monkeypatch.setattr(client_uploads, "MAX_UNCONFIRMED", 2)
    async with direct_storage(seaweedfs, database_url, tmp_path) as direct:
        await direct.wait_signing(pb.INTENT_WRITE)
        data = some_bytes(1_000)
        assert await direct.put(await direct.upload_url(1, data), data) == 200
        keys = [named(10), named(10)]
        assert sum(bool(signed.url) for signed in await direct.sign(1, *keys, intent=pb.INTENT_WRITE)) == 1
        await direct.confirm(1, data)
        assert sum(bool(signed.url) for signed in await direct.sign(1, *keys, intent=pb.INTENT_WRITE)) == 1


async def test_what_does_not_fit_is_refused_for_each_object(storage: RunningStorage) -> None:
    """In the order asked, with how much is used; what is held or damaged needs no room."""
    await storage.limit(1, quota=100)
    held = await storage.write(1, bytes(30))
    small, large, last, first = named(7), named(61), named(30), named(30)
    answer = await storage.announce(1, first, (held, 30), large, small, last)
    statuses = [stat.status for stat in answer.objects]
    assert statuses == [MISSING, PRESENT, OVER_QUOTA, MISSING, MISSING]
    assert (answer.objects[2].over_quota.used_bytes, answer.objects[2].over_quota.quota_bytes) == (60, 100)
    assert (answer.quota.used_bytes, answer.quota.quota_bytes) == (97, 100)
    # Where nothing fits, the whole call is refused; and asking again for what is reserved takes no more room.
    error = await failure(storage.announce(1, named(71), named(64)))
    assert (error.status.name, error.reason, error.message) == (
        "RESOURCE_EXHAUSTED",
        "QUOTA_EXCEEDED",
        "37 bytes of 100 bytes used",
    )
    assert [stat.status for stat in (await storage.announce(1, first, small, last)).objects] == [MISSING] * 3
    assert (await storage.usage(1)).reserved_bytes == 7


async def test_one_batch_leaves_room_for_others(storage: RunningStorage, sql: Sql) -> None:
    """A user's announcements reserve a tenth of what is left; the uploads themselves take the room that there is."""
    await storage.limit(1, quota=1000)
    files = [some_bytes(50) for _ in range(20)]
    whole = [(oid_of(data), 50) for data in files]
    for batch in (whole, [named(900)], whole[10:]):
        answer = await storage.announce(1, *batch, user_id=ALICE)
        assert {stat.status for stat in answer.objects} == {MISSING}
        assert (await storage.usage(1)).reserved_bytes == 100
    # Each user has a tenth of what the others leave, and takes nothing over that another has announced.
    await storage.announce(1, *whole[:2], *(named(45) for _ in range(20)), user_id=BOB)
    sizes = "SELECT string_agg(size::text, ' ' ORDER BY user_id, size) FROM storage.reservations"
    assert await sql(sizes) == "50 50 45 45"
    await storage.write(1, some_bytes(700), user_id=BOB)
    await storage.write(1, some_bytes(110), user_id=BOB)
    refused = [error for data in files if (error := await refusal(storage.write(1, data, user_id=ALICE))) is not None]
    assert {error.message for error in refused} == {"1 kB of 1 kB used"}
    assert len(refused) == 18
    usage = await storage.usage(1)
    assert (usage.object_bytes, usage.reserved_bytes) == (910, 90)


async def test_a_repository_without_a_quota_reserves_nothing(storage: RunningStorage, sql: Sql) -> None:
    """Nothing is recorded for it beside a repository that has one; a quota of 0 is none."""
    await storage.limit(1, quota=100)
    assert not (await storage.announce(2, named(1_000_000))).HasField("quota")
    assert await sql(RESERVED) == "0"
    after = (await storage.limit(1, quota=0)).after
    assert (after.quota_bytes, after.HasField("quota_bytes"), after.HasField("bandwidth_bytes")) == (0, True, False)
    await storage.write(1, bytes(200))
    assert not (await storage.usage(1)).HasField("quota_bytes")


async def test_own_limits_go_before_the_default(database_url: SecretStr, tmp_path: Path) -> None:
    """A repository has the default quota until it gets one, and after -1 again; the answer tells both."""
    async with running_storage(database_url, tmp_path, storage_quota=100, storage_bandwidth_limit=1000) as storage:
        usage = await storage.usage(1)
        assert (usage.quota_bytes, usage.bandwidth_bytes) == (100, 1000)
        assert (await failure(storage.write(1, bytes(101)))).reason == "QUOTA_EXCEEDED"
        changed = await storage.limit(1, quota=200)
        assert (changed.before.HasField("quota_bytes"), changed.after.quota_bytes) == (False, 200)
        await storage.write(1, bytes(101))
        changed = await storage.limit(1, quota=-1, bandwidth=0)
        assert (changed.before.quota_bytes, changed.after.HasField("quota_bytes")) == (200, False)
        usage = await storage.usage(1)
        assert (usage.quota_bytes, usage.HasField("bandwidth_bytes")) == (100, False)
        for wrong in ({"quota": -2}, {"bandwidth": -2}):
            assert (await failure(storage.limit(1, **wrong))).reason == "INVALID_FIELD"


async def test_other_services_know_a_limit_within_seconds(database_url: SecretStr, tmp_path: Path) -> None:
    """A limit that was set at one service holds at the others."""
    async with two_storages(database_url, tmp_path) as [here, there]:
        await here.limit(1, quota=5)
        await until_answer(5, lambda: quota_of(there))
        assert (await failure(there.write(1, b"123456"))).message == "0 bytes of 5 bytes used"


async def test_room_is_given_back_when_the_connection_is_cut(storage: RunningStorage, sql: Sql) -> None:
    """An upload that breaks keeps no room, although it was announced for longer."""
    await storage.limit(1, quota=5 * CHUNK_BYTES)
    size = 5 * CHUNK_BYTES
    data = some_bytes(size)
    await storage.announce(1, (oid_of(data), size), seconds=3600)
    call = await storage.begin(*upload(1, oid_of(data), size, [data[:CHUNK_BYTES]]))
    await until(lambda: sum(path.stat().st_size for path in storage.incoming()) == CHUNK_BYTES)
    assert (await failure(storage.write(1, b"x"))).reason == "QUOTA_EXCEEDED"
    call.cancel()
    await until_answer("0", lambda: sql(RESERVED))
    await storage.write(1, some_bytes(size), streamed=True)


async def test_an_upload_of_what_was_held_needs_room_once_it_is_gone(storage: RunningStorage, sql: Sql) -> None:
    """It reserves nothing when it begins; others may have taken the room when it ends."""
    size = 5 * CHUNK_BYTES
    await storage.limit(1, quota=size)
    data, other = some_bytes(size), some_bytes(size)
    oid = await storage.write(1, data, streamed=True)
    header, first, *rest = upload(1, oid, size, chunks_of(data))
    calls = [await storage.begin(header, first) for _ in range(2)]
    await until(lambda: sum(path.stat().st_size for path in storage.incoming()) == 2 * CHUNK_BYTES)
    await storage.delete(1, oid)
    await storage.purge(1, oid)
    await storage.restore(1, oid, bytes_required=False)
    other_oid = await storage.write(1, other, streamed=True)
    assert (await failure(finish(calls[0], *rest))).reason == "QUOTA_EXCEEDED"
    usage = await storage.usage(1)
    assert (usage.object_bytes, usage.reserved_bytes) == (size, 0)
    await storage.delete(1, other_oid)
    await finish(calls[1], *rest)
    assert (await storage.usage(1)).object_bytes == size
    assert await sql(RESERVED) == "0"


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_room_is_given_back_when_the_bytes_are_wrong(
    storage: RunningStorage, sql: Sql, *, streamed: bool
) -> None:
    """A refused upload keeps no room."""
    await storage.limit(1, quota=100)
    oid = oid_of(b"others")
    await storage.announce(1, (oid, 100))
    assert (await failure(storage.write(1, bytes(100), oid=oid, streamed=streamed))).reason == "HASH_MISMATCH"
    assert await sql(RESERVED) == "0"
    await storage.write(1, bytes(100), streamed=streamed)


async def test_room_is_given_back_when_the_caller_leaves_before_it_is_reserved(database: Database, sql: Sql) -> None:
    """An upload that is given up while Postgres decides on its room keeps none."""
    quotas = QuotaReservations(database, LimitCache(database, quota=100, user_quota=0, bandwidth=0))

    async def admit(data: bytes) -> None:
        async with quotas.admitted(1, oid_of(data), 100, user_id=None):
            pass

    try:
        async with database.engine.begin() as connection:
            lock = "SELECT pg_advisory_xact_lock(hashtextextended('towpath storage quota of repository 1', 0))"
            await connection.execute(text(lock))
            task = asyncio.create_task(admit(b"data"))
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            await until_answer("1", lambda: sql(waiting))
            task.cancel()
        await asyncio.wait({task}, timeout=STEP_SECONDS)
        assert task.cancelled()
        await admit(b"more")
        assert await sql("SELECT oid FROM storage.reservations") == oid_of(b"more")
    finally:
        await quotas.close()


async def test_room_is_given_back_in_time(storage: RunningStorage, sql: Sql) -> None:
    """An announcement that nobody makes true counts for ten minutes, whatever its time, and its row goes."""
    await storage.limit(1, quota=100)
    await storage.announce(1, named(10), seconds=3600)
    lasts = "SELECT expires_at - now() BETWEEN interval '9 minutes' AND interval '10 minutes' FROM storage.reservations"
    assert await sql(lasts) == "t"
    assert (await failure(storage.announce(1, named(91)))).reason == "QUOTA_EXCEEDED"
    await sql("UPDATE storage.reservations SET expires_at = now()")
    await storage.write(1, bytes(100))
    await until_answer("0", lambda: sql(RESERVED))


async def test_room_is_kept_for_as_long_as_an_upload_runs(
    database_url: SecretStr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: Sql
) -> None:
    """An upload outlives its action, and what is lost of its reservation, without giving up its room."""
    monkeypatch.setattr(reservations, "LEASE_SECONDS", 2.0)
    monkeypatch.setattr(reservations, "RENEW_SECONDS", 0.1)
    async with running_storage(database_url, tmp_path, storage_quota=5 * CHUNK_BYTES) as storage:
        size = 5 * CHUNK_BYTES
        data = some_bytes(size)
        header, first, *rest = upload(1, oid_of(data), size, chunks_of(data))
        call = await storage.begin(header, first)
        await until_answer("1", lambda: sql(RESERVED))
        before = await sql("SELECT expires_at FROM storage.reservations")
        await sql("DELETE FROM storage.reservations")
        await until_answer("1", lambda: sql(RESERVED))
        assert await sql("SELECT expires_at FROM storage.reservations") > before
        assert (await failure(storage.write(1, b"x"))).reason == "QUOTA_EXCEEDED"
        await finish(call, *rest)
        # A renewal beside the commit may leave the reservation, which counts nothing beside its object.
        usage = await storage.usage(1)
        assert (usage.object_bytes, usage.reserved_bytes) == (size, 0)


async def test_an_upload_keeps_its_room_when_its_twin_breaks(database_url: SecretStr, tmp_path: Path, sql: Sql) -> None:
    """Of two uploads of an object at two services one is wrong: what the other needs is not given to others."""
    async with two_storages(database_url, tmp_path) as [here, there]:
        await here.limit(1, quota=100)
        await until_answer(100, lambda: quota_of(there))
        data = some_bytes(100)
        oid = oid_of(data)
        header, first, last = upload(1, oid, 100, chunks_of(data, 50))
        call = await here.begin(header, first)
        await until_answer("1", lambda: sql(RESERVED))
        for service in (there, here):
            assert (await failure(service.write(1, bytes(100), oid=oid, streamed=True))).reason == "HASH_MISMATCH"
            assert (await failure(service.write(1, b"x"))).reason == "QUOTA_EXCEEDED"
        await finish(call, last)
        assert (await here.usage(1)).object_bytes == 100


async def test_a_storm_never_fills_more_than_the_quota(database_url: SecretStr, tmp_path: Path, sql: Sql) -> None:
    """Uploads that succeed, break, are wrong and are given up, of the same objects at two services, leave no gap."""
    chance = random.Random(28)  # noqa: S311 - the same storm each time
    files = [os.urandom(chance.randrange(50, 200)) for _ in range(30)]
    used = "SELECT coalesce(sum(size), 0) FROM storage.objects WHERE removed_at IS NULL"
    async with two_storages(database_url, tmp_path, storage_quota=1000, storage_bin_days=0) as services:

        async def give_up(call: Awaitable[object]) -> None:
            task = asyncio.ensure_future(call)
            for _ in range(chance.randrange(60)):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})

        async def step(number: int) -> None:
            storage, data = chance.choice(services), chance.choice(files)
            oid = oid_of(data)
            kinds: list[Callable[[], Awaitable[object]]] = [
                lambda: storage.announce(1, (oid, len(data))),
                lambda: storage.write(1, data),
                lambda: storage.write(1, data, streamed=True),
                lambda: storage.write(1, bytes(len(data)), oid=oid, streamed=True),
                lambda: give_up(storage.write(1, data, streamed=True)),
                lambda: storage.delete(1, oid),
            ]
            error = await refusal(kinds[number % len(kinds)]())
            expected = {"QUOTA_EXCEEDED", "HASH_MISMATCH", "OBJECT_REMOVED", "OBJECT_NOT_FOUND"}
            assert error is None or error.reason in expected

        for start in range(0, 600, 60):
            await asyncio.gather(*(step(number) for number in range(start, start + 60)))
            assert int(await sql(used)) <= 1000
            # Not meanwhile: what is held needs no room, also where it is removed while it is uploaded once more.
            await asyncio.gather(
                *(refusal(services[0].restore(1, oid_of(data), bytes_required=False)) for data in files)
            )
        assert int(await sql(used)) > 0
        await until_answer("0", lambda: sql("SELECT count(*) FROM storage.reservations WHERE uploads <> '{}'"))


async def test_collected_objects_come_back_if_they_fit(storage: RunningStorage) -> None:
    """An announcement that brings garbage back without an upload needs room for it, whatever size it names."""
    await storage.limit(1, quota=100)
    small, large = await storage.write(1, bytes(30)), await storage.write(1, b"x" * 70)
    assert (await collect(storage, ["0" * 64], apply=True)).result == pb.CollectionResult(
        removed_count=2, removed_bytes=100
    )
    await storage.write(1, b"y" * 60)
    answer = await storage.announce(1, (large, 70), (small, 30), named(5))
    assert [stat.status for stat in answer.objects] == [OVER_QUOTA, PRESENT, MISSING]
    assert (answer.objects[0].over_quota.used_bytes, answer.objects[0].over_quota.quota_bytes) == (90, 100)
    assert [stat.status for stat in (await storage.announce(1, (large, 1))).objects] == [MISSING]
    usage = await storage.usage(1)
    assert (usage.object_bytes, usage.removed_count) == (90, 1)


async def test_no_size_is_too_large_to_be_refused(storage: RunningStorage) -> None:
    """The largest number is compared with what is left, not added to what is used."""
    await storage.limit(1, quota=100)
    await storage.write(1, bytes(30))
    assert (await failure(storage.announce(1, named(2**63 - 1)))).message == "30 bytes of 100 bytes used"
    await storage.limit(user_id=7, quota=100)
    assert (await failure(storage.announce(2, named(2**63 - 1), user_id=7))).message == "0 bytes of your 100 bytes used"


async def test_announcements_reserve_so_much_and_no_more(
    storage: RunningStorage, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of announcements makes no table grow; what is uploaded all the same is judged then."""
    monkeypatch.setattr(reservations, "MAX_ANNOUNCED", 3)
    await storage.limit(1, quota=100)
    for _ in range(5):
        assert [stat.status for stat in (await storage.announce(1, named(1))).objects] == [MISSING]
    assert await sql(RESERVED) == "3"
    assert (await failure(storage.write(1, bytes(98)))).reason == "QUOTA_EXCEEDED"
    await storage.write(1, bytes(97))


async def test_a_reservation_of_a_held_object_counts_nothing(storage: RunningStorage, sql: Sql) -> None:
    """The commit of an object leaves a reservation behind if a renewal holds it just then."""
    await storage.limit(1, quota=1000)
    await storage.limit(user_id=7, quota=1000)
    await storage.write(1, bytes(600), user_id=7)
    await sql(
        "INSERT INTO storage.reservations (repository_id, oid, size, user_id, expires_at, uploads)"
        " SELECT repository_id, oid, size, added_by, now() + interval '1 hour', '{}' FROM storage.objects"
    )
    assert (await failure(storage.announce(1, named(401), user_id=7))).message == "600 bytes of 1 kB used"
    assert (await storage.announce(1, named(400), user_id=7)).quota.used_bytes == 1000
    await storage.write(1, some_bytes(400), user_id=7)
    assert (await failure(storage.announce(2, named(1), user_id=7))).message == "1 kB of your 1 kB used"


async def test_announcements_of_one_moment_are_answered_each_alone(storage: RunningStorage) -> None:
    """They share statements; each has its own objects, and room in its own repository."""
    await storage.limit(1, quota=1000)
    await storage.limit(2, quota=10_000)
    shared = named(90)
    answers = await asyncio.gather(
        *(storage.announce(repository_id, shared, named(5)) for repository_id in (1, 2) * 2),
        storage.announce(2, shared, named(500)),
        storage.announce(1, named(1001), shared),
    )
    assert [len(answer.objects) for answer in answers] == [2] * 6
    assert [stat.status for stat in answers[5].objects] == [OVER_QUOTA, MISSING]
    assert all(stat.status == MISSING for answer in answers[:5] for stat in answer.objects)
    assert max(answer.quota.used_bytes for answer in answers) == 600
    assert [(await storage.usage(id_)).reserved_bytes for id_ in (1, 2)] == [100, 600]


async def test_a_full_disk_keeps_no_room(database_url: SecretStr, tmp_path: Path, sql: Sql) -> None:
    """An announcement that is refused for another reason reserves nothing."""
    async with running_storage(database_url, tmp_path, storage_quota=100, storage_reserve_bytes=1 << 60) as storage:
        assert (await failure(storage.announce(1, named(10)))).reason == "STORAGE_FULL"
        assert await sql(RESERVED) == "0"


async def test_removal_makes_room(storage: RunningStorage) -> None:
    """Objects in the bin count nothing, and come back whatever the quota says."""
    await storage.limit(1, quota=100)
    oid = await storage.write(1, bytes(100))
    await storage.delete(1, oid)
    other = await storage.write(1, b"x" * 100)
    await storage.restore(1, oid)
    assert (await storage.usage(1)).object_bytes == 200
    assert (await failure(storage.announce(1, named(1)))).message == "200 bytes of 100 bytes used"
    await storage.delete(1, other)
    await storage.delete(1, oid)
    await storage.write(1, b"y" * 100)


async def test_an_object_counts_in_each_repository(storage: RunningStorage) -> None:
    """Bytes that lie in the store once need room in the quota of each repository that holds them."""
    for repository_id in (1, 2):
        await storage.limit(repository_id, quota=100)
    oid = await storage.write(1, bytes(60))
    await storage.write(2, b"x" * 60)
    assert (await failure(storage.write(2, bytes(60)))).reason == "QUOTA_EXCEEDED"
    # An administrator who copies decides for himself.
    assert (await storage.copy(1, 2, oid)).copied_oids == [oid]
    assert (await storage.usage(2)).object_bytes == 120
