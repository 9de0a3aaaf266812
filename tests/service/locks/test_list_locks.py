"""ListLocks and VerifyLocks (protocol: "List locks", "List locks for verification")."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, Reason
from services.database.engine import create_engine
from services.database.statement import Row, Statement
from services.database.transactions import Database
from services.locks.locking.pages import LockFilter, LockPages
from services.locks.settings import LocksSettings
from tests.service.locks.conftest import Team, fill
from tests.support.locks import RunningLocks, refused


async def _all(service: RunningLocks, repository_id: int, *, limit: int, **which: str) -> list[pb.Lock]:
    """Return the locks of all pages."""
    locks: list[pb.Lock] = []
    cursor = ""
    while True:
        page = await service.list(repository_id, cursor=cursor, limit=limit, **which)
        assert len(page.locks) <= limit
        locks.extend(page.locks)
        cursor = page.next_cursor
        if not cursor:
            return locks


def _is_empty(page: pb.ListLocksResponse) -> bool:
    return not page.locks and not page.next_cursor


async def _fill(service: RunningLocks, team: Team, count: int) -> list[pb.Lock]:
    """Lock paths for alice and bob in turn."""
    owners = (team.alice, team.bob)
    return [await service.create(team.repository_id, owners[number % 2], f"f{number}.dat") for number in range(count)]


async def test_in_the_order_of_their_creation(service: RunningLocks, team: Team) -> None:
    """The oldest comes first, each with its owner's name; to a user who does not exist all are those of others."""
    locks = await _fill(service, team, 4)
    page = await service.list(team.repository_id)
    assert list(page.locks) == locks
    assert [lock.owner_name for lock in page.locks] == [team.alice_name, team.bob_name] * 2
    assert page.next_cursor == ""
    assert list((await service.verify(team.repository_id, 2**62)).theirs) == locks


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 1000])
async def test_every_lock_is_on_one_page(service: RunningLocks, team: Team, limit: int) -> None:
    """No page loses its last lock, and the last page, even a full one, has no cursor that leads nowhere (trap-16)."""
    locks = await _fill(service, team, 5)
    assert await _all(service, team.repository_id, limit=limit) == locks


async def test_the_lock_of_an_id(service: RunningLocks, team: Team) -> None:
    """An id that no lock has, or could have, is an empty list; id and path must both match."""
    locks = await _fill(service, team, 3)
    assert list((await service.list(team.repository_id, lock_id=locks[1].id)).locks) == [locks[1]]
    assert list((await service.list(team.repository_id, lock_id=locks[1].id, path="f1.dat")).locks) == [locks[1]]
    assert _is_empty(await service.list(team.repository_id, lock_id=locks[1].id, path="f0.dat"))
    for lock_id in ("", "x", "-1", "0", f"0{locks[1].id}", str(2**63), str(2**63 - 1), "\0", "1 OR 1=1"):
        assert _is_empty(await service.list(team.repository_id, lock_id=lock_id))


FOLDERS = ("Content/Maps/", "Content/Maps", "content/", "Content/\N{SNOWMAN}/", f"Content/{'x' * 300}/")


@pytest.mark.parametrize("limit", [1, 3, 1000])
@pytest.mark.parametrize(
    "prefix", [*FOLDERS, "", "C", "Content/M", f"Content/{'x' * 300}", "\U0010ffff", "none/", "\0"]
)
async def test_the_locks_of_a_folder(service: RunningLocks, team: Team, prefix: str, limit: int) -> None:
    """All pages together have each lock below the folder once, by path, and no other."""
    paths = [f"{folder}{name}" for folder in FOLDERS for name in ("b", "a", "\U0010ffff")] + ["\U0010ffffz", "Contents"]
    for number, path in enumerate(paths):
        await service.create(team.repository_id, (team.alice, team.bob)[number % 2], path)
    expected = sorted(path for path in paths if path.startswith(prefix))
    found = await _all(service, team.repository_id, limit=limit, path_prefix=prefix)
    assert sorted(lock.path for lock in found) == expected
    assert [lock.path[:255] for lock in found] == [path[:255] for path in expected]
    own = await _all(service, team.repository_id, limit=limit, path_prefix=prefix, owner_name=team.alice_name)
    assert sorted(lock.path for lock in own) == sorted(path for path in paths[::2] if path.startswith(prefix))


async def test_the_locks_of_an_owner(service: RunningLocks, team: Team) -> None:
    """The owner is named exactly; a name that nobody has is an empty list."""
    locks = await _fill(service, team, 6)
    assert await _all(service, team.repository_id, limit=2, owner_name=team.bob_name) == locks[1::2]
    for name in ("nobody", "", "\0", team.bob_name.upper()):
        assert _is_empty(await service.list(team.repository_id, owner_name=name))


async def test_old_locks(service: RunningLocks, team: Team) -> None:
    """Only locks that were created before a moment are listed, so that stale ones are found."""
    locks = await _fill(service, team, 2)
    request = pb.ListLocksRequest(repository_id=team.repository_id, locked_before=locks[0].locked_at)
    assert _is_empty(await service.peer.call(service.locks.ListLocks, request))
    request.locked_before.seconds = locks[1].locked_at.seconds + 1
    assert list((await service.peer.call(service.locks.ListLocks, request)).locks) == locks


@pytest.mark.parametrize("cursor", ["x", "1", "1.x", ".", "1.AA==", "0.YQ==", "\0", f"{2**63}.YQ=="])
async def test_malformed_cursors_of_a_folder(service: RunningLocks, team: Team, cursor: str) -> None:
    """A cursor of another list is refused, because it does not say where a list by path goes on."""
    with refused(InvalidArgument, Reason.INVALID_CURSOR):
        await service.list(team.repository_id, cursor=cursor, path_prefix="a")


async def test_measured_pages_of_a_folder(service: RunningLocks, team: Team) -> None:
    """Pages that long paths cut short have the same order, and lose none."""
    for number in range(10):
        await service.create(team.repository_id, team.alice, f"a/{number}/{'x' * 20}")
    settings = LocksSettings.model_construct(lock_page_default=1000, lock_page_max=1000, lock_page_bytes=70)
    found: list[str] = []
    cursor = ""
    async with service.open_database() as database:
        pages, which = LockPages(database, settings), LockFilter(path_prefix="a/")
        while not found or cursor:
            page = await pages.read(team.repository_id, which, cursor=cursor, limit=0)
            found += [lock.path for lock in page.locks]
            cursor = page.next_cursor
    assert found == [f"a/{number}/{'x' * 20}" for number in range(10)]


class CountingDatabase(Database):
    """A database that remembers what it was asked."""

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine)
        self.statements: list[Statement] = []

    async def fetch(self, statement: Statement, *, patient: bool = True) -> Sequence[Row]:
        """Remember the statement, and run it."""
        self.statements.append(statement)
        return await super().fetch(statement, patient=patient)


async def test_one_statement_a_page(service: RunningLocks, team: Team) -> None:
    """The owners' names come with the locks, because a query for each lock would slow every page (trap-23)."""
    await _fill(service, team, 10)
    database = CountingDatabase(create_engine(service.database_url, schema="locks", pool_size=1))
    # The second page is measured in Postgres, because the bytes of the paths cut the first one short.
    settings = LocksSettings.model_construct(lock_page_default=1000, lock_page_max=1000, lock_page_bytes=20)
    pages = LockPages(database, settings)
    for number in (1, 2):
        page = await pages.read(team.repository_id, cursor="", limit=0)
        assert len(page.locks) == 3
        assert len({lock.owner_name for lock in page.locks}) == 2
        assert len(database.statements) == number
        assert "OFFSET" not in database.statements[-1].sql
    await database.close()
    assert database.statements[0] != database.statements[1]


async def test_what_was_locked_before_is_always_there(service: RunningLocks, team: Team) -> None:
    """However many ask for the same page in that moment."""

    async def come_and_go(number: int) -> None:
        for turn in range(6):
            lock = await service.create(team.repository_id, team.alice, f"{number}/{turn}")
            assert lock in (await service.list(team.repository_id, limit=100)).locks
            assert lock in (await service.verify(team.repository_id, team.alice, limit=100)).ours
            await service.delete(team.repository_id, team.alice, lock.id)
            assert lock not in (await service.list(team.repository_id, limit=100)).locks

    await asyncio.gather(*(come_and_go(number) for number in range(16)))


async def test_10_000_locks_while_others_come_and_go(service: RunningLocks, team: Team) -> None:
    """Every lock that stands all the while is listed once, whatever is created and deleted meanwhile."""
    await fill(service, team, 10_000)
    standing = {lock.id for lock in await _all(service, team.repository_id, limit=1000)}
    assert len(standing) == 10_000
    stop = asyncio.Event()

    async def come_and_go(worker: int) -> None:
        number = 0
        while not stop.is_set():
            lock = await service.create(team.repository_id, team.bob, f"passing/{worker}/{number}")
            with suppress(NotFound):
                await service.delete(team.repository_id, team.bob, lock.id)
            number += 1

    workers = [asyncio.create_task(come_and_go(worker)) for worker in range(3)]
    for limit in (1000, 333, 100):
        listed = [lock.id for lock in await _all(service, team.repository_id, limit=limit)]
        assert len(set(listed)) == len(listed)
        assert standing <= set(listed)
    stop.set()
    await asyncio.gather(*workers)
    assert {lock.id for lock in await _all(service, team.repository_id, limit=1000)} == standing


async def test_the_generation_grows_with_each_change(service: RunningLocks, team: Team) -> None:
    """A list and a verification tell the same number, which a change of another repository leaves as it is."""

    async def generation() -> int:
        number = (await service.list(team.repository_id)).generation
        assert (await service.verify(team.repository_id, team.alice)).generation == number
        assert (await service.list(team.repository_id, path_prefix="\0")).generation == number
        return number

    seen = [await generation()]
    lock = await service.create(team.repository_id, team.alice, "a")
    seen.append(await generation())
    with pytest.raises(AlreadyExists):
        await service.create(team.repository_id, team.bob, "a")
    await service.create(await service.add_repository(f"other/{team.repository}"), team.alice, "a")
    assert await generation() == seen[-1]
    await service.delete(team.repository_id, team.alice, lock.id)
    seen.append(await generation())
    assert seen == sorted(set(seen))


async def test_a_known_generation_reads_no_lock(service: RunningLocks, team: Team) -> None:
    """The present generation is answered without locks, and any other with a page."""
    [lock] = await _fill(service, team, 1)
    request = pb.ListLocksRequest(repository_id=team.repository_id)
    page = await service.peer.call(service.locks.ListLocks, request)
    request.known_generation = page.generation
    unchanged = await service.peer.call(service.locks.ListLocks, request)
    assert unchanged == pb.ListLocksResponse(generation=page.generation, unchanged=True)
    for other in (page.generation - 1, page.generation + 1, -1):
        request.known_generation = other
        assert list((await service.peer.call(service.locks.ListLocks, request)).locks) == [lock]


async def test_no_two_states_have_one_generation(service: RunningLocks, team: Team) -> None:
    """Readers beside many writers never see two lists of locks under one number, whatever commits in which order."""
    seen: dict[int, list[str]] = {}
    done = asyncio.Event()

    async def read() -> None:
        while not done.is_set():
            page = await service.list(team.repository_id, limit=1000)
            paths = [lock.id for lock in page.locks]
            assert seen.setdefault(page.generation, paths) == paths

    async def write(worker: int) -> None:
        for number in range(20):
            lock = await service.create(team.repository_id, team.alice, f"{worker}/{number}")
            if number % 2:
                await service.delete(team.repository_id, team.alice, lock.id)

    readers = [asyncio.create_task(read()) for _ in range(3)]
    await asyncio.gather(*map(write, range(8)))
    done.set()
    await asyncio.gather(*readers)
    assert len(seen) > 3
