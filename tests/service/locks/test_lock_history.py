"""ListReleasedLocks, and the time for which a repository keeps its history."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason
from services.database.engine import create_engine
from services.database.transactions import Database
from services.locks.locking.retention import delete_expired
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused
from tests.support.waiting import until

NOW = datetime.now(UTC)


async def released(service: RunningLocks, team: Team, *, limit: int = 0, **fields: Any) -> Sequence[pb.ReleasedLock]:  # noqa: ANN401 - whatever the message takes
    """Return all released locks that match, in pages of `limit`."""
    request = pb.ListReleasedLocksRequest(repository_id=team.repository_id, limit=limit, **fields)
    found: list[pb.ReleasedLock] = []
    while True:
        page = await service.peer.call(service.locks.ListReleasedLocks, request)
        assert not limit or len(page.locks) <= limit
        assert page.locks or not found, "the cursor of a page leads to more"
        found.extend(page.locks)
        if not page.next_cursor:
            return found
        request.cursor = page.next_cursor


async def release(service: RunningLocks, team: Team, path: str, *, age: timedelta, owner: int = 0) -> pb.Lock:
    """Create a lock and release it, and let the release be of that age."""
    lock = await service.create(team.repository_id, owner or team.alice, path)
    await service.delete(team.repository_id, owner or team.alice, lock.id)
    statement = "UPDATE locks.released_locks SET released_at = :at WHERE lock_id = :id"
    await execute(service, statement, at=NOW - age, id=int(lock.id))
    return lock


async def execute(service: RunningLocks, statement: str, **values: object) -> None:
    """Execute a statement past the service."""
    engine = create_engine(service.database_url, schema="locks", pool_size=1)
    async with engine.begin() as connection:
        await connection.execute(text(statement), values)
    await engine.dispose()


def paths_of(locks: Sequence[pb.ReleasedLock]) -> list[str]:
    """Return the paths of released locks, in their order."""
    return [each.lock.path for each in locks]


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 5, 6])
async def test_filters(service: RunningLocks, team: Team, limit: int) -> None:
    """Each filter holds on every page, and the latest release is first, whatever the order of the records."""
    await release(service, team, "a", age=timedelta(days=1))
    await release(service, team, "b", age=timedelta(days=4), owner=team.bob)
    await release(service, team, "a", age=timedelta(days=3), owner=team.bob)
    await release(service, team, "c", age=timedelta(days=2))
    await release(service, team, "d", age=timedelta(days=2))

    async def paths(**fields: Any) -> list[str]:  # noqa: ANN401 - whatever the message takes
        return paths_of(await released(service, team, limit=limit, **fields))

    assert await paths() == ["a", "d", "c", "a", "b"]
    assert await paths(path="a") == ["a", "a"]
    assert await paths(path="a\0") == []
    assert await paths(owner_name=team.bob_name) == ["a", "b"]
    assert await paths(owner_name="nobody") == await paths(owner_name="\0") == await paths(owner_name="") == []
    assert await paths(since=NOW - timedelta(days=3)) == ["a", "d", "c", "a"]
    assert await paths(until=NOW - timedelta(days=3)) == ["b"]
    window: dict[str, Any] = {"since": NOW - timedelta(days=3), "until": NOW - timedelta(days=1)}
    assert await paths(**window) == ["d", "c", "a"]
    assert await paths(**window, owner_name=team.bob_name, path="a") == ["a"]


async def test_the_history_of_a_user_who_is_gone(service: RunningLocks, team: Team) -> None:
    """The history keeps names, and is searched by them."""
    await release(service, team, "a", age=timedelta(days=1), owner=team.bob)
    await service.admin_peer.call(service.admin.DeleteUser, admin.DeleteUserRequest(name=team.bob_name))
    assert paths_of(await released(service, team, owner_name=team.bob_name)) == ["a"]


async def test_cursors(service: RunningLocks, team: Team) -> None:
    """A cursor that no page gave is refused, and one of another repository shows nothing of it."""
    await release(service, team, "a", age=timedelta(days=1))
    with refused(InvalidArgument, Reason.INVALID_CURSOR):
        await released(service, team, cursor="x")
    other = await service.add_repository(f"other/{team.repository}")
    lock = await service.create(other, team.alice, "b")
    await service.delete(other, team.alice, lock.id)
    request = admin.ListReleasedLocksRequest(repository=f"other/{team.repository}")
    [page] = [(await service.admin_peer.call(service.admin.ListReleasedLocks, request))]
    assert page.locks[0].lock == lock
    assert await released(service, team, cursor="1") == []


async def test_times_that_are_none(service: RunningLocks, team: Team) -> None:
    """A time that no calendar has is refused by the name of its field."""
    request = pb.ListReleasedLocksRequest(repository_id=team.repository_id)
    request.until.seconds = 2**60
    with refused(InvalidArgument, Reason.INVALID_FIELD) as caught:
        await service.peer.call(service.locks.ListReleasedLocks, request)
    assert caught.value.message.startswith("until: ")


async def test_reasons(service: RunningLocks, team: Team) -> None:
    """Every call that removes locks may say why, and the history tells."""
    for path in ("a", "b", "c", "d"):
        await service.create(team.repository_id, team.alice, path, note=f"note of {path}")
    ids = {lock.path: lock.id for lock in (await service.list(team.repository_id)).locks}
    ours: dict[str, Any] = {"repository_id": team.repository_id, "user_id": team.alice}
    theirs: dict[str, Any] = {"repository": team.repository}
    await service.peer.call(service.locks.DeleteLock, pb.DeleteLockRequest(**ours, id=ids["a"], reason="one"))
    await service.peer.call(service.locks.DeleteLocks, pb.DeleteLocksRequest(**ours, paths=["b"], reason="two"))
    remove = admin.RemoveLockRequest(**theirs, id=ids["c"], reason="three")
    await service.admin_peer.call(service.admin.RemoveLock, remove)
    unlock = admin.UnlockPathsRequest(**theirs, paths=["d"], reason="four")
    await service.admin_peer.call(service.admin.UnlockPaths, unlock)
    history = await released(service, team)
    assert [(was.lock.path, was.lock.note, was.reason, was.forced, was.stolen) for was in history] == [
        ("d", "note of d", "four", True, False),
        ("c", "note of c", "three", True, False),
        ("b", "note of b", "two", False, False),
        ("a", "note of a", "one", False, False),
    ]
    admins = (
        await service.admin_peer.call(service.admin.ListReleasedLocks, admin.ListReleasedLocksRequest(**theirs))
    ).locks
    assert [(was.lock, was.reason, was.released_by) for was in admins] == [
        (was.lock, was.reason, was.released_by) for was in history
    ]


@pytest.fixture
async def engine(service: RunningLocks) -> AsyncEngine:
    """An engine on the database of the service."""
    return create_engine(service.database_url, schema="locks", pool_size=1)


async def test_the_history_is_kept_for_a_time(service: RunningLocks, team: Team, engine: AsyncEngine) -> None:
    """Older entries are deleted, a few rows in a transaction, and only of repositories that say so."""
    keeping = await service.add_repository(f"keeping/{team.repository}")
    forever = Team(**{**vars(team), "repository_id": keeping})
    for age in range(1, 8):
        for each in (team, forever):
            await release(service, each, f"f{age}", age=timedelta(days=age))
    request = admin.UpdateRepositoryRequest(name=team.repository, history_seconds=3 * 86_400)
    changed = (await service.admin_peer.call(service.admin.UpdateRepository, request)).repository
    assert changed.history_seconds == 3 * 86_400
    database = Database(engine)
    await until(partial(delete_expired, database, max_rows=2))
    assert paths_of(await released(service, team)) == ["f1", "f2"]
    assert len(await released(service, forever)) == 7
    request = admin.UpdateRepositoryRequest(name=team.repository, history_seconds=0)
    await service.admin_peer.call(service.admin.UpdateRepository, request)
    await release(service, team, "old", age=timedelta(days=1000))
    await until(partial(delete_expired, database))
    assert paths_of(await released(service, team)) == ["f1", "f2", "old"]
    await database.close()


async def test_one_service_at_a_time_deletes(service: RunningLocks, team: Team, engine: AsyncEngine) -> None:
    """While another deletes, there is nothing to do."""
    await release(service, team, "old", age=timedelta(days=2))
    request = admin.UpdateRepositoryRequest(name=team.repository, history_seconds=3600)
    await service.admin_peer.call(service.admin.UpdateRepository, request)
    database = Database(engine)
    other = create_engine(service.database_url, schema="locks", pool_size=1)
    async with other.begin() as connection:
        await connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('towpath lock retention', 0))"))
        assert not await delete_expired(database)
        assert paths_of(await released(service, team)) == ["old"]
    await until(partial(delete_expired, database))
    assert await released(service, team) == []
    await other.dispose()
    await database.close()


async def test_events_are_kept_for_a_day(service: RunningLocks, team: Team, engine: AsyncEngine) -> None:
    """Events of a stripe are deleted from the first number on, so that a watch finds no gap among the others."""
    database = Database(engine)
    for number in range(5):
        await service.create(team.repository_id, team.alice, f"f{number}")
    await execute(
        service,
        "UPDATE locks.lock_events SET stripe = 0, number = 100 + id,"
        " created_at = now() - make_interval(hours => CASE path WHEN 'f1' THEN 23 WHEN 'f2' THEN 25 WHEN 'f0' THEN 25"
        " ELSE 1 END) WHERE repository_id = :id",
        id=team.repository_id,
    )
    await until(partial(delete_expired, database, max_rows=2))
    async with engine.connect() as connection:
        statement = text("SELECT path FROM lock_events WHERE repository_id = :id ORDER BY number")
        left = (await connection.scalars(statement, {"id": team.repository_id})).all()
    assert left == ["f3", "f4"]
    await database.close()


@pytest.mark.parametrize(("stale", "history"), [(-1, 0), (0, -1), (0, 3599), (2**62, 0), (0, 2**62)])
async def test_spans_out_of_bounds(service: RunningLocks, team: Team, stale: int, history: int) -> None:
    """A span that no time can be reckoned with is refused by the name of its field."""
    field = "stale_after_seconds" if stale else "history_seconds"
    create = admin.CreateRepositoryRequest(name="out/of/bounds", stale_after_seconds=stale, history_seconds=history)
    with refused(InvalidArgument, Reason.INVALID_FIELD) as caught:
        await service.admin_peer.call(service.admin.CreateRepository, create)
    assert caught.value.message.startswith(f"{field}: ")
    update = admin.UpdateRepositoryRequest(
        name=team.repository, stale_after_seconds=stale or None, history_seconds=history or None
    )
    with refused(InvalidArgument, Reason.INVALID_FIELD) as caught:
        await service.admin_peer.call(service.admin.UpdateRepository, update)
    assert caught.value.message.startswith(f"{field}: ")
