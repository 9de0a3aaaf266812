"""ListReleasedLocks, and the time for which a repository keeps its history."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason
from services.locks.locking.retention import delete_expired
from tests.service.locks.conftest import Team, delete_old
from tests.support.locks import RunningLocks, refused

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
    statement = "UPDATE released_locks SET released_at = :at WHERE lock_id = :id"
    await service.execute(statement, at=NOW - age, id=int(lock.id))
    return lock


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
    await service.delete_user(team.bob_name)
    assert paths_of(await released(service, team, owner_name=team.bob_name)) == ["a"]


async def test_cursors(service: RunningLocks, team: Team) -> None:
    """A cursor that no page gave is refused, and one of another repository shows nothing of it."""
    await release(service, team, "a", age=timedelta(days=1))
    with refused(InvalidArgument, Reason.INVALID_CURSOR):
        await released(service, team, cursor="x")
    other = await service.add_repository(f"other/{team.repository}")
    lock = await service.create(other, team.alice, "b")
    await service.delete(other, team.alice, lock.id)
    [page] = await service.released(f"other/{team.repository}")
    assert page.lock == lock
    assert await released(service, team, cursor="1") == []


async def test_times_that_are_none(service: RunningLocks, team: Team) -> None:
    """A time that no calendar has is refused by the name of its field."""
    request = pb.ListReleasedLocksRequest(repository_id=team.repository_id)
    request.until.seconds = 2**60
    with refused(InvalidArgument, Reason.INVALID_FIELD, "until: "):
        await service.peer.call(service.locks.ListReleasedLocks, request)


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
    admins = await service.released(team.repository)
    assert [(was.lock, was.reason, was.released_by) for was in admins] == [
        (was.lock, was.reason, was.released_by) for was in history
    ]


async def test_the_history_is_kept_for_a_time(service: RunningLocks, team: Team) -> None:
    """Older entries are deleted, a few rows in a transaction, and only of repositories that say so."""
    keeping = await service.add_repository(f"keeping/{team.repository}")
    forever = Team(**{**vars(team), "repository_id": keeping})
    for age in range(1, 8):
        for each in (team, forever):
            await release(service, each, f"f{age}", age=timedelta(days=age))
    changed = await service.update_repository(team.repository, history_seconds=3 * 86_400)
    assert changed.history_seconds == 3 * 86_400
    await delete_old(service, max_rows=2)
    assert paths_of(await released(service, team)) == ["f1", "f2"]
    assert len(await released(service, forever)) == 7
    await service.update_repository(team.repository, history_seconds=0)
    await release(service, team, "old", age=timedelta(days=1000))
    await delete_old(service)
    assert paths_of(await released(service, team)) == ["f1", "f2", "old"]


async def test_one_service_at_a_time_deletes(service: RunningLocks, team: Team) -> None:
    """While another deletes, there is nothing to do."""
    await release(service, team, "old", age=timedelta(days=2))
    await service.update_repository(team.repository, history_seconds=3600)
    async with service.open_database(pool_size=2) as database, database.engine.begin() as other:
        await other.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('towpath lock retention', 0))"))
        assert not await delete_expired(database)
        assert paths_of(await released(service, team)) == ["old"]
    await delete_old(service)
    assert await released(service, team) == []


async def test_events_are_kept_for_a_day(service: RunningLocks, team: Team) -> None:
    """Events of a stripe are deleted from the first number on, so that a watch finds no gap among the others."""
    for number in range(5):
        await service.create(team.repository_id, team.alice, f"f{number}")
    await service.execute(
        "UPDATE lock_events SET stripe = 0, number = 100 + id,"
        " created_at = now() - make_interval(hours => CASE path WHEN 'f1' THEN 23 WHEN 'f2' THEN 25 WHEN 'f0' THEN 25"
        " ELSE 1 END) WHERE repository_id = :id",
        id=team.repository_id,
    )
    await delete_old(service, max_rows=2)
    left = "SELECT path FROM lock_events WHERE repository_id = :id ORDER BY number"
    assert await service.execute(left, id=team.repository_id) == [("f3",), ("f4",)]


@pytest.mark.parametrize(("stale", "history"), [(-1, 0), (0, -1), (0, 3599), (2**62, 0), (0, 2**62)])
async def test_spans_out_of_bounds(service: RunningLocks, team: Team, stale: int, history: int) -> None:
    """A span that no time can be reckoned with is refused by the name of its field."""
    field = "stale_after_seconds" if stale else "history_seconds"
    create = admin.CreateRepositoryRequest(name="out/of/bounds", stale_after_seconds=stale, history_seconds=history)
    with refused(InvalidArgument, Reason.INVALID_FIELD, f"{field}: "):
        await service.admin_peer.call(service.admin.CreateRepository, create)
    with refused(InvalidArgument, Reason.INVALID_FIELD, f"{field}: "):
        await service.update_repository(
            team.repository, stale_after_seconds=stale or None, history_seconds=history or None
        )
