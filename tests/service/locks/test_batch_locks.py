"""CreateLocks and DeleteLocks: many paths in one call."""

import asyncio
import uuid
from collections.abc import Sequence

import pytest
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import InvalidArgument, NotFound, Reason, ResourceExhausted
from tests.service.locks.conftest import Team, new_team
from tests.support.locks import RunningLocks, refused, running_locks
from tests.support.postgres import TestPostgres

MAX_PATHS = 1000


async def lock(
    service: RunningLocks, team: Team, user: int, paths: Sequence[str], *, all_or_nothing: bool = False
) -> pb.CreateLocksResponse:
    """Lock paths for a user."""
    request = pb.CreateLocksRequest(
        repository_id=team.repository_id, user_id=user, paths=paths, all_or_nothing=all_or_nothing
    )
    return await service.peer.call(service.locks.CreateLocks, request)


async def unlock(
    service: RunningLocks,
    team: Team,
    user: int,
    paths: Sequence[str],
    *,
    force: bool = False,
    all_or_nothing: bool = False,
    key: str = "",
) -> pb.DeleteLocksResponse:
    """Remove the locks of paths as a user."""
    request = pb.DeleteLocksRequest(
        repository_id=team.repository_id,
        user_id=user,
        paths=paths,
        force=force,
        all_or_nothing=all_or_nothing,
        idempotency_key=key,
    )
    return await service.peer.call(service.locks.DeleteLocks, request)


async def standing(service: RunningLocks, team: Team) -> dict[str, int]:
    """Return the owner of each locked path."""
    page = await service.list(team.repository_id, limit=MAX_PATHS)
    assert not page.next_cursor
    return {each.path: each.owner_id for each in page.locks}


def paths_of(locks: Sequence[pb.Lock]) -> list[str]:
    """Return the paths of locks, in their order."""
    return [each.path for each in locks]


async def test_a_thousand_paths(service: RunningLocks, team: Team) -> None:
    """All are locked, and answered in the order of the call; a page of locks has them in the order of their paths."""
    paths = [f"Content/{number:04}.uasset" for number in reversed(range(MAX_PATHS))]
    made = await lock(service, team, team.alice, paths)
    assert (paths_of(made.locks), list(made.failures)) == (paths, [])
    page = await service.list(team.repository_id, limit=MAX_PATHS)
    assert paths_of(page.locks) == sorted(paths)
    assert sorted(page.locks, key=lambda each: each.id) == sorted(made.locks, key=lambda each: each.id)


async def test_what_the_caller_holds_is_a_success(service: RunningLocks, team: Team) -> None:
    """A repeated call changes nothing, so that a client may repeat one whose answer is lost."""
    before = await service.create(team.repository_id, team.alice, "b")
    first = await lock(service, team, team.alice, ["a", "b", "a"])
    assert paths_of(first.locks) == ["a", "b"]
    assert first.locks[1] == before
    assert await lock(service, team, team.alice, ["a", "b"], all_or_nothing=True) == first


async def test_failures_beside_locks(service: RunningLocks, team: Team) -> None:
    """Each path that is not locked has its reason, and the lock that stands in the way."""
    theirs = await service.create(team.repository_id, team.bob, "b")
    answer = await lock(service, team, team.alice, ["c", "b", "/rooted", "a"])
    assert paths_of(answer.locks) == ["c", "a"]
    taken, invalid = answer.failures
    assert (taken.path, taken.reason, taken.lock) == ("b", "PATH_LOCKED", theirs)
    assert team.bob_name in taken.message
    assert (invalid.path, invalid.reason, invalid.HasField("lock")) == ("/rooted", "INVALID_PATH", False)
    assert await standing(service, team) == {"a": team.alice, "b": team.bob, "c": team.alice}


@pytest.mark.parametrize("bad", ["b", "a/../c"], ids=["locked", "invalid"])
async def test_all_or_nothing(service: RunningLocks, team: Team, bad: str) -> None:
    """One path that cannot be locked leaves all as they were."""
    await service.create(team.repository_id, team.bob, "b")
    answer = await lock(service, team, team.alice, ["a", bad, "c"], all_or_nothing=True)
    assert (list(answer.locks), [failure.path for failure in answer.failures]) == ([], [bad])
    assert await standing(service, team) == {"b": team.bob}


@pytest.mark.parametrize("count", [0, MAX_PATHS + 1])
async def test_the_number_of_paths_is_bounded(service: RunningLocks, team: Team, count: int) -> None:
    """No path and too many are refused before anything is done."""
    paths = [f"f{number}" for number in range(count)]
    for call in (lock, unlock):
        with refused(InvalidArgument, Reason.INVALID_FIELD, "paths: "):
            await call(service, team, team.alice, paths)


async def test_parties_that_do_not_exist(service: RunningLocks, team: Team) -> None:
    """An unknown user or repository is told by its field."""
    for call in (lock, unlock):
        with refused(NotFound, Reason.USER_NOT_FOUND):
            await call(service, team, 2**40, ["a"])
    request = pb.CreateLocksRequest(repository_id=2**40, user_id=team.alice, paths=["a"])
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.peer.call(service.locks.CreateLocks, request)


async def test_limits(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A batch that would pass a limit locks nothing; one that fills it up to the limit locks all."""
    limits = {"locks_per_repository": 12, "locks_per_user": 10}
    folder = tmp_path_factory.mktemp("limited")
    async with running_locks(await postgres.create_database(), folder, limits=limits) as service:
        team = await new_team(service)
        await lock(service, team, team.alice, ["a", "b"])
        with refused(ResourceExhausted, Reason.TOO_MANY_LOCKS) as caught:
            await lock(service, team, team.alice, [f"f{number}" for number in range(9)])
        assert "locks_per_user" in caught.value.message
        filled = await lock(service, team, team.alice, ["a", *(f"f{number}" for number in range(8))])
        assert len(filled.locks) == 9
        with refused(ResourceExhausted, Reason.TOO_MANY_LOCKS) as caught:
            await lock(service, team, team.bob, ["x", "y", "z"])
        assert "locks_per_repository" in caught.value.message
        assert len(await standing(service, team)) == 10
        assert paths_of((await lock(service, team, team.alice, ["a", "b"])).locks) == ["a", "b"]


async def test_many_locks_are_removed(service: RunningLocks, team: Team) -> None:
    """The removed locks are answered in the order of the call, and are in the history."""
    made = await lock(service, team, team.alice, ["a", "b", "c"])
    removed = await unlock(service, team, team.alice, ["c", "a"])
    assert list(removed.locks) == [made.locks[2], made.locks[0]]
    assert await standing(service, team) == {"b": team.alice}
    history = await service.released(team.repository)
    assert {(each.lock.path, each.released_by, each.forced) for each in history} == {
        ("a", team.alice_name, False),
        ("c", team.alice_name, False),
    }


async def test_a_repeated_removal(service: RunningLocks, team: Team) -> None:
    """The same key gets the same locks again, though another user has locked one of the paths since."""
    key = uuid.uuid4().hex
    await lock(service, team, team.alice, ["a", "b"])
    removed = await unlock(service, team, team.alice, ["a", "b"], key=key)
    await service.create(team.repository_id, team.bob, "b")
    again = await unlock(service, team, team.alice, ["a", "b"], key=key)
    assert list(again.locks) == [removed.locks[0]]
    assert [(failure.path, failure.reason) for failure in again.failures] == [("b", "LOCK_NOT_OWNED")]
    assert await standing(service, team) == {"b": team.bob}


async def test_locks_of_others(service: RunningLocks, team: Team) -> None:
    """Without force the locks of others stay; with it they are removed, as DeleteLock does."""
    await lock(service, team, team.alice, ["a"])
    theirs = await service.create(team.repository_id, team.bob, "b")
    answer = await unlock(service, team, team.alice, ["a", "b", "none"])
    assert paths_of(answer.locks) == ["a"]
    owned, absent = answer.failures
    assert (owned.path, owned.reason, owned.lock) == ("b", "LOCK_NOT_OWNED", theirs)
    assert (absent.path, absent.reason) == ("none", "LOCK_NOT_FOUND")
    forced = await unlock(service, team, team.alice, ["b"], force=True)
    assert list(forced.locks) == [theirs]
    assert await standing(service, team) == {}


async def test_all_locks_or_none_are_removed(service: RunningLocks, team: Team) -> None:
    """One lock that cannot be removed leaves all standing."""
    await lock(service, team, team.alice, ["a", "c"])
    await service.create(team.repository_id, team.bob, "b")
    answer = await unlock(service, team, team.alice, ["a", "b", "c"], all_or_nothing=True)
    assert (list(answer.locks), [failure.path for failure in answer.failures]) == ([], ["b"])
    assert await standing(service, team) == {"a": team.alice, "b": team.bob, "c": team.alice}


async def test_overlapping_batches(service: RunningLocks, team: Team) -> None:
    """Of two batches that overlap, one gets all its paths and the other none, each time, and none waits for ever."""
    paths = [f"f{number:03}" for number in range(100)]
    halves = {team.alice: paths[:75], team.bob: paths[:24:-1]}
    for _ in range(20):
        answers = await asyncio.gather(
            *(lock(service, team, user, half, all_or_nothing=True) for user, half in halves.items())
        )
        assert sorted(len(answer.locks) for answer in answers) == [0, 75]
        [winner] = {answer.locks[0].owner_id for answer in answers if answer.locks}
        assert await standing(service, team) == dict.fromkeys(halves[winner], winner)
        await unlock(service, team, winner, halves[winner], all_or_nothing=True)


async def test_batches_beside_single_calls(service: RunningLocks, team: Team) -> None:
    """Creations and removals of one and of many paths go on side by side, and each path has one owner at a time."""
    paths = [f"f{number}" for number in range(20)]

    async def many(user: int, order: Sequence[str]) -> None:
        for _ in range(10):
            locked = paths_of((await lock(service, team, user, order)).locks)
            owners = await standing(service, team)
            assert {owners[path] for path in locked} <= {user}
            if locked:
                assert not (await unlock(service, team, user, locked)).failures

    async def single(user: int) -> None:
        for path in paths * 2:
            answer = await lock(service, team, user, [path])
            for each in answer.locks:
                await service.delete(team.repository_id, user, each.id)

    others = [await service.add_user(f"{name}-{team.repository_id}") for name in ("carol", "dave")]
    await asyncio.gather(many(team.alice, paths), many(team.bob, paths[::-1]), *map(single, others))
    assert await standing(service, team) == {}
