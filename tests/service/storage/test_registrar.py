"""Uploads that come at once: whatever they share on their way to the index, each is answered for itself."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import FailedPrecondition, NotFound
from services.database.transactions import Database
from services.storage.blob_names import new_name
from services.storage.index import contents, objects
from services.storage.index.contents import FIRST_STORE_ID, PendingBlob, UploadedBlob
from services.storage.index.registrar import CommittedUpload, UploadRegistrar, VerifiedUpload
from tests.service.storage.conftest import Sql
from tests.service.storage.test_crash import SESSIONS, SLOW_COMMIT
from tests.support.storage import StorageClient, StorageProcess, oid_of
from tests.support.waiting import until, until_answer

PRESENT = pb.OBJECT_STATUS_PRESENT
WRITER = 7


@pytest.fixture
async def registrar(database: Database) -> AsyncIterator[UploadRegistrar]:
    """A registrar, without a service around it."""
    made = UploadRegistrar(database, WRITER)
    yield made
    await made.close()


async def begun(registrar: UploadRegistrar, repository_id: int, data: bytes) -> VerifiedUpload:
    """Begin an upload, and return what is to be registered when its bytes are in place."""
    oid = oid_of(data)
    name = new_name(oid)
    [found] = await registrar.begin([PendingBlob(repository_id, FIRST_STORE_ID, oid, name)])
    assert found.is_known
    return VerifiedUpload(repository_id, oid, len(data), [UploadedBlob(FIRST_STORE_ID, oid, name, found.replaces, 0)])


async def registered(
    registrar: UploadRegistrar, *verified: VerifiedUpload
) -> list[CommittedUpload | BaseException | None]:
    """Register in one moment, and return what became of each."""
    return await asyncio.gather(*map(registrar.register, verified), return_exceptions=True)


async def test_a_group_is_one_transaction(registrar: UploadRegistrar, sql: Sql) -> None:
    """Forty uploads of one moment have one transaction that begins them, and one that registers them."""
    uploads = await asyncio.gather(*(begun(registrar, 1 + number % 3, b"%d" % number) for number in range(40)))
    assert await sql("SELECT count(*), count(DISTINCT xmin::text) FROM storage.uploads") == "40|1"
    answers = await registered(registrar, *uploads)
    assert [answer.record.oid for answer in answers if isinstance(answer, CommittedUpload)] == [
        one.oid for one in uploads
    ]
    assert await sql("SELECT count(*), count(DISTINCT xmin::text) FROM storage.objects") == "40|1"
    assert await sql("SELECT count(*) FROM storage.contents") == "40"
    assert await sql("SELECT count(*) FROM storage.uploads") == "0"


async def test_one_object_many_times_in_a_group(registrar: UploadRegistrar, sql: Sql) -> None:
    """The bytes of one stay, those of the others are discarded, and all repositories hold the object."""
    uploads = await asyncio.gather(*(begun(registrar, 1 + number % 3, b"data") for number in range(12)))
    other = await begun(registrar, 1, b"other")
    answers = await registered(registrar, *uploads, other)
    kept = uploads[0].blobs[0].name
    assert sorted((await sql("SELECT name FROM storage.contents")).split()) == sorted([kept, other.blobs[0].name])
    assert [answer.names for answer in answers if isinstance(answer, CommittedUpload)][:-1] == [[kept]] * 12
    assert await sql("SELECT count(*) FROM storage.objects") == "4"
    discarded = (await sql("SELECT name FROM storage.discards ORDER BY name")).split()
    assert discarded == sorted(one.blobs[0].name for one in uploads[1:])
    assert await sql("SELECT count(*) FROM storage.uploads") == "0"


async def test_what_is_written_again_takes_the_place(registrar: UploadRegistrar, sql: Sql) -> None:
    """Bytes that were there when uploads began are replaced by those of the first of them."""
    first = await begun(registrar, 1, b"data")
    await registered(registrar, first)
    again = [await begun(registrar, 1, b"data"), await begun(registrar, 2, b"data")]
    await registered(registrar, *again)
    assert await sql("SELECT name FROM storage.contents") == again[0].blobs[0].name
    discarded = (await sql("SELECT name FROM storage.discards ORDER BY name")).split()
    assert discarded == sorted(one.blobs[0].name for one in (first, again[1]))


async def test_refusals_are_their_own(registrar: UploadRegistrar, database: Database, sql: Sql) -> None:
    """Of a group, what was removed, is of a deleted repository, or was given up fails, and nothing else."""
    uploads = [await begun(registrar, repository_id, b"%d" % repository_id) for repository_id in range(1, 6)]
    _, removed, deleted, lost, _ = uploads
    add = objects.ObjectToAdd(removed.repository_id, removed.oid, removed.size)
    await database.run(lambda connection: objects.add(connection, [add]))
    await sql("UPDATE storage.objects SET removed_at = now(), removal_reason = 'a licence'")
    await database.run(lambda connection: objects.close_repository(connection, deleted.repository_id))
    await database.run(lambda connection: contents.give_up(connection, [lost.blobs[0].name]))
    good, no_licence, no_repository, given_up, also_good = await registered(registrar, *uploads)
    assert isinstance(good, CommittedUpload)
    assert isinstance(also_good, CommittedUpload)
    assert isinstance(no_licence, FailedPrecondition)
    assert no_licence.metadata == {"removal_reason": "a licence"}
    assert isinstance(no_repository, NotFound)
    assert given_up is None
    held = (await sql("SELECT repository_id FROM storage.objects WHERE removed_at IS NULL ORDER BY 1")).split()
    assert held == ["1", "5"]
    assert await sql("SELECT count(*) FROM storage.contents") == "2"


async def test_repeated_after_it_has_succeeded(registrar: UploadRegistrar, sql: Sql) -> None:
    """A group whose answer was lost is registered again with the same outcome."""
    uploads = [await begun(registrar, 1, b"%d" % number) for number in range(3)]
    before = await registered(registrar, *uploads)
    assert await registered(registrar, *uploads) == before
    assert await sql("SELECT count(*) FROM storage.contents") == "3"
    assert await sql("SELECT count(*) FROM storage.discards") == "0"


async def test_a_store_that_was_forgotten_meanwhile(registrar: UploadRegistrar, sql: Sql) -> None:
    """Bytes that came to it are not acknowledged; those of others in the group are."""
    await sql("INSERT INTO storage.stores (id, name, url, is_primary) VALUES (9, 'ninth', 'file:///ninth', false)")
    here = await begun(registrar, 1, b"here")
    oid = oid_of(b"there")
    there = VerifiedUpload(1, oid, 5, [UploadedBlob(9, oid, new_name(oid), None, 0)])
    [found] = await registrar.begin([PendingBlob(1, 9, oid, there.blobs[0].name)])
    assert found.is_known
    # Not seen by who forgets it: it was begun in that moment.
    await sql("DELETE FROM storage.stores WHERE id = 9")
    held, lost = await registered(registrar, here, there)
    assert isinstance(held, CommittedUpload)
    assert lost is None
    assert await sql("SELECT count(*) FROM storage.objects") == "1"
    [found] = await registrar.begin([PendingBlob(1, 9, oid, new_name(oid))])
    assert not found.is_known


async def test_groups_of_two_processes_do_not_wait_for_each_other(database: Database, sql: Sql) -> None:
    """The same objects in opposite orders, registered by two at once while a third removes: no deadlock, one winner."""
    before = int(await sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
    registrars = [UploadRegistrar(database, WRITER), UploadRegistrar(database, WRITER + 1)]
    for number in range(10):
        data = [b"%d %d" % (number, each) for each in range(20)]
        groups = [
            [await begun(registrar, which, each) for each in data[:: 1 - 2 * which]]
            for which, registrar in enumerate(registrars)
        ]

        async def remove(oids: list[str]) -> None:
            async def work(connection: AsyncConnection) -> None:
                await objects.lock(connection, oids)
                await objects.forget(connection, 0, oids)
                await contents.release_unreferenced(connection, oids)

            await database.run(work)

        oids = [oid_of(each) for each in data]
        await asyncio.gather(
            *(registered(registrar, *group) for registrar, group in zip(registrars, groups, strict=True)),
            remove(oids[::3]),
        )
    assert await sql("SELECT count(*) FROM storage.objects WHERE repository_id = 1") == "200"
    assert await sql("SELECT count(*) FROM storage.contents") == "200"
    assert await sql("SELECT count(*) FROM storage.uploads") == "0"
    after = int(await sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
    assert after == before
    for registrar in registrars:
        await registrar.close()


async def test_a_database_that_is_away(registrar: UploadRegistrar, sql: Sql) -> None:
    """Connections that are cut amid a group are not noticed; each of it is registered once."""
    uploads = [await begun(registrar, 1, b"%d" % number) for number in range(10)]
    await sql(SLOW_COMMIT.format(seconds=2))
    registering = asyncio.create_task(registered(registrar, *uploads))
    await until_answer("t", lambda: sql(f"SELECT count(*) > 0 {SESSIONS} AND wait_event = 'PgSleep'"))
    await sql(f"SELECT pg_terminate_backend(pid) {SESSIONS} AND state <> 'idle'")
    answers = await registering
    assert all(isinstance(answer, CommittedUpload) for answer in answers), answers
    assert await sql("SELECT count(*) FROM storage.contents") == "10"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_killed_between_the_bytes_and_the_commit_of_a_group(
    process: StorageProcess, client: StorageClient, sql: Sql, streamed: bool
) -> None:
    """Nothing of a group is acknowledged before its commit; what it leaves is swept; what was acknowledged stays."""
    await process.start()
    held = [await client.write(1, b"%d" % number) for number in range(3)]
    # For each object: the first come alone, and the others together while those are committed.
    await sql(SLOW_COMMIT.format(seconds=2))
    data = [os.urandom(2000) for _ in range(16)]
    calls = [asyncio.ensure_future(client.write(1, each, streamed=streamed)) for each in data]
    await until(lambda: len(client.files()) == 3 + 16 and not client.incoming())
    await process.stop(signal.SIGKILL)
    await sql(f"SELECT pg_terminate_backend(pid) {SESSIONS}")
    ended = await asyncio.gather(*calls, return_exceptions=True)
    held += [answer for answer in ended if isinstance(answer, str)]
    assert len(held) < 3 + 16
    await sql("DROP TRIGGER dawdle ON storage.objects")
    await process.start()
    oids = [*held[:3], *map(oid_of, data)]

    async def is_swept() -> bool:
        # Some may have been committed, and their answer was lost.
        stood = zip(oids, await client.statuses(1, *oids), strict=True)
        present = {oid for oid, status in stood if status == PRESENT}
        assert present.issuperset(held)
        return set(client.oids()) == present

    await until(is_swept)
