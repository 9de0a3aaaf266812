"""WatchRemovals: a place of an object is not allowed any more once a removal is acknowledged, or nothing is told."""

import asyncio
from pathlib import Path

import grpc
import pytest
from pydantic import SecretStr
from sqlalchemy import text
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import Reason, Unavailable
from tests.service.storage.conftest import Sql, connected
from tests.support.postgres import running_postgres
from tests.support.service_process import standing_still
from tests.support.storage import RunningStorage, failure, oid_of, running_storage, two_storages
from tests.support.waiting import STEP_SECONDS, until

DATA = bytes(range(100))
LONG = 5.0
_TERMINATE = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%pg_trigger%' "
    "AND application_name = 'towpath-storage' AND datname = current_database()"
)

Place = pb.BatchStatObjectsResponse.Place


class Watcher:
    """Somebody who keeps places: the last answer."""

    def __init__(self, storage: RunningStorage) -> None:
        self.storage = storage
        self.last = pb.WatchRemovalsResponse()

    async def ask(self, *, wait: float = 0.0, deadline: float = STEP_SECONDS) -> pb.WatchRemovalsResponse:
        """Ask from the last answer on."""
        request = pb.WatchRemovalsRequest(known_since=self.last.known_since, wait_seconds=wait)
        self.last = await self.storage.stub.WatchRemovals(request, timeout=deadline)
        return self.last

    async def begin(self) -> None:
        """Ask until somebody listens."""

        async def answers() -> bool:
            try:
                await self.ask()
            except grpc.aio.AioRpcError:
                return False
            return True

        await until(answers)

    async def place(self, data: bytes = DATA, repository_id: int = 1) -> Place:
        """Return where a batch says that an object lies, once that is allowed."""
        found = Place()

        async def is_allowed() -> bool:
            # A place from before the end of a transaction of the service's own is not.
            nonlocal found
            await self.ask()
            found = await place_of(self.storage, data, repository_id)
            return await self.allows(found)

        await until(is_allowed)
        return found

    async def allows(self, place: Place) -> bool:
        """Tell whether the place may still be read."""
        answer = await self.ask()
        return place.server_started == answer.server_started and place.transaction_id >= answer.known_since


async def place_of(storage: RunningStorage, data: bytes = DATA, repository_id: int = 1) -> Place:
    """Return where a batch says that an object lies."""
    return (await storage.stat(repository_id, (oid_of(data), len(data)), intent=pb.INTENT_READ)).objects[0].place


@pytest.fixture
async def watcher(storage: RunningStorage) -> Watcher:
    """A watcher, when storage listens, and an object is held."""
    watcher = Watcher(storage)
    await watcher.begin()
    await storage.write(1, DATA)
    return watcher


async def test_a_place_is_where_the_file_is(storage: RunningStorage, watcher: Watcher) -> None:
    """A place leads to the object's file, and a facade may read it from the moment that it is reported."""
    place = await watcher.place()
    oid = oid_of(DATA)
    path = storage.root / "objects" / oid[:2] / oid[2:4] / f"{oid}.{place.suffix}"
    assert path == storage.path(oid)
    assert await watcher.allows(place)


@pytest.mark.parametrize("intent", [pb.INTENT_UNSPECIFIED, pb.INTENT_WRITE])
async def test_only_who_reads_is_told(storage: RunningStorage, watcher: Watcher, intent: pb.Intent.ValueType) -> None:
    """Nobody else has a use for it."""
    await watcher.ask()
    answer = await storage.stat(1, (oid_of(DATA), len(DATA)), intent=intent)
    assert not answer.objects[0].HasField("place")


async def test_a_removal_ends_the_places_before_it(storage: RunningStorage, watcher: Watcher) -> None:
    """Those of others too, which are asked for again; what is told afterwards is allowed."""
    other = b"other"
    await storage.write(1, other)
    places = [await watcher.place(), await watcher.place(other)]
    await storage.delete(1, oid_of(DATA))
    assert [await watcher.allows(place) for place in places] == [False, False]
    assert await watcher.allows(await watcher.place(other))


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM storage.objects WHERE false",
        "UPDATE storage.objects SET removed_at = now(), removal_reason = 'x'",
        "BEGIN; TRUNCATE storage.objects; COMMIT",
        "UPDATE storage.contents SET is_doubted = true",
        "BEGIN; SET session_replication_role = replica; DELETE FROM storage.objects WHERE false; COMMIT",
    ],
)
async def test_whoever_removes_is_told_of(watcher: Watcher, sql: Sql, statement: str) -> None:
    """An operator with psql, too."""
    place = await watcher.place()
    await sql(statement)
    assert not await watcher.allows(place)


async def test_what_removes_nothing_ends_no_place(storage: RunningStorage, watcher: Watcher, sql: Sql) -> None:
    """Uploads, new and repeated, reads, and what was not committed."""
    place = await watcher.place()
    for number in range(3):
        await storage.write(1 + number, DATA)
        await storage.write(1, b"%d" % number)
    await storage.read(1, oid_of(DATA))
    await sql("BEGIN; DELETE FROM storage.objects; ROLLBACK")
    await sql("UPDATE storage.contents SET is_doubted = false")
    assert await watcher.allows(place)


async def test_a_removal_under_way_ends_what_was_told_meanwhile(
    storage: RunningStorage, watcher: Watcher, database_url: SecretStr
) -> None:
    """A batch that does not see it yet has a place of before it, whatever else was committed in between."""
    async with connected(database_url) as removing:
        await removing.execute(text("UPDATE storage.objects SET removed_at = now(), removal_reason = 'x'"))
        await storage.write(2, b"committed meanwhile")
        place = await watcher.place()
        assert place.suffix
        await removing.commit()
    assert not await watcher.allows(place)


async def test_places_are_good_again_soon_after_a_long_transaction(
    watcher: Watcher, sql: Sql, database_url: SecretStr
) -> None:
    """A watcher that waits for the next removal is answered at once, since a place from meanwhile is never good."""
    async with connected(database_url) as other:
        await other.execute(text("SELECT pg_current_xact_id()"))
        await sql("DELETE FROM storage.objects WHERE false")
        await watcher.ask()
        assert not await watcher.allows(await place_of(watcher.storage))
    # Shorter than the wait, so that an answer that comes with its end is too late.
    await watcher.ask(wait=LONG, deadline=LONG / 2)
    assert await watcher.allows(await place_of(watcher.storage))


async def test_who_waits_is_told_as_it_happens(storage: RunningStorage, watcher: Watcher) -> None:
    """The wait ends with the removal, and else by itself."""
    place = await watcher.place()
    await watcher.ask(wait=0.1)
    waiting = asyncio.create_task(watcher.ask(wait=LONG))
    # Nothing tells that a call waits; one that does not has ended by then.
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await storage.delete(1, oid_of(DATA))
    assert place.transaction_id < (await waiting).known_since


async def test_an_answer_has_all_that_was_acknowledged_before(watcher: Watcher, sql: Sql) -> None:
    """However soon it is asked for."""
    for _ in range(50):
        place = await watcher.place()
        assert await watcher.allows(place)
        await sql("DELETE FROM storage.objects WHERE false")
        assert not await watcher.allows(place)


async def test_a_new_listener_allows_nothing_from_before(watcher: Watcher, sql: Sql) -> None:
    """A new listener does not know the removals before it, so it must allow no earlier place."""
    place = await watcher.place()
    assert await sql(_TERMINATE) == "1"
    await sql("DELETE FROM storage.objects WHERE false")
    await watcher.begin()
    assert not await watcher.allows(place)


async def test_two_services_tell_the_same(database_url: SecretStr, tmp_path: Path) -> None:
    """A place that one has told ends by what is removed at the other."""
    async with two_storages(database_url, tmp_path) as [storage, second]:
        watcher, other = Watcher(storage), Watcher(second)
        await watcher.begin()
        await other.begin()
        await storage.write(1, DATA)
        place = await other.place()
        assert await watcher.allows(place)
        await storage.delete(1, oid_of(DATA))
        assert not await other.allows(place)
        assert not await watcher.allows(place)


async def test_a_place_names_its_server(watcher: Watcher, sql: Sql) -> None:
    """After a restart of Postgres, or on a standby that took over, ids of transactions may come again."""
    started = await sql("SELECT (1000000 * extract(epoch FROM pg_postmaster_start_time()))::bigint")
    assert str((await watcher.place()).server_started) == started


async def test_nothing_is_told_where_the_tables_do_not_tell(
    storage: RunningStorage, watcher: Watcher, sql: Sql
) -> None:
    """As where somebody has turned a trigger off; batches tell no places then, and all goes on."""
    await sql("ALTER TABLE storage.objects DISABLE TRIGGER object_removed")
    for _ in range(2):
        error = await failure(watcher.ask())
        assert isinstance(error, Unavailable)
        assert error.reason == Reason.UNAVAILABLE
    assert await place_of(storage) == Place()
    await sql("ALTER TABLE storage.objects ENABLE ALWAYS TRIGGER object_removed")
    await watcher.begin()


async def test_nothing_is_told_while_postgres_stands_still(tmp_path: Path) -> None:
    """The service must not claim a state that it cannot find out."""
    async with running_postgres() as own, own.database() as url, running_storage(url, tmp_path) as storage:
        watcher = Watcher(storage)
        await watcher.begin()
        with standing_still(await own.processes()):
            error = await failure(watcher.ask(deadline=1))
        assert error.status.name in ("DEADLINE_EXCEEDED", "UNAVAILABLE")
        await watcher.begin()


@pytest.mark.parametrize("wait", [-1.0, 5.1, float("inf"), float("nan")])
async def test_a_wait_out_of_bounds_is_refused(watcher: Watcher, wait: float) -> None:
    """The message names the field."""
    error = await failure(watcher.ask(wait=wait))
    assert error.reason == Reason.INVALID_FIELD
    assert error.message.startswith("wait_seconds: ")
