"""Lock spaces: a path has one lock in each space, and the rules of a repository tell the space of a ref."""

import asyncio
from collections.abc import Sequence

import pytest
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import AlreadyExists, InvalidArgument, Reason
from tests.service.locks.conftest import Team
from tests.service.locks.test_lock_events import watching
from tests.support.locks import RunningLocks, refused

MAIN = "refs/heads/main"
ONE, TWO = "refs/heads/release/1", "refs/heads/release/2"
ART = ["refs/heads/art/anna", "refs/heads/art/ben"]
RULES = ["refs/heads/release/*=per-ref", "refs/heads/art/*=art"]


async def set_rules(service: RunningLocks, team: Team, *rules: str) -> admin.Repository:
    """Set the rules of the team's repository."""
    return await service.update_repository(team.repository, lock_spaces=admin.LockSpaces(rules=rules))


async def ids(service: RunningLocks, team: Team, ref: str = "", path: str | None = None) -> list[str]:
    """Return the ids of the locks that a list and a verification for the ref show."""
    listed = [lock.id for lock in (await service.list(team.repository_id, ref=ref, path=path)).locks]
    if path is None:
        page = await service.verify(team.repository_id, team.alice, ref=ref)
        assert [lock.id for lock in sorted([*page.ours, *page.theirs], key=lambda lock: int(lock.id))] == listed
    return listed


async def test_a_path_is_locked_once_in_each_space(service: RunningLocks, team: Team) -> None:
    """A second lock in the same space is refused with the first; each space has its own list, and no ref shows all."""
    assert list((await set_rules(service, team, *RULES)).lock_spaces) == RULES
    refs = {MAIN: "", ONE: ONE, TWO: TWO, ART[0]: "art"}
    locks = {}
    for ref, space in refs.items():
        locks[ref] = await service.create(team.repository_id, team.alice, "f1", ref=ref)
        assert locks[ref].space == space
    for ref, same in ((MAIN, MAIN), ("", MAIN), ("refs/heads/other", MAIN), (ONE, ONE), (ART[1], ART[0])):
        with refused(AlreadyExists, Reason.PATH_LOCKED) as caught:
            await service.create(team.repository_id, team.bob, "f1", ref=ref)
        assert caught.value.detail == locks[same]
        if ref:
            assert await ids(service, team, ref) == [locks[same].id]
            assert await ids(service, team, ref, "f1") == [locks[same].id]
            assert await ids(service, team, ref, "f2") == []
    everything = [lock.id for lock in locks.values()]
    assert await ids(service, team) == await ids(service, team, path="f1") == everything


async def test_locks_that_stand_keep_their_space(service: RunningLocks, team: Team) -> None:
    """A change of the rules counts at once for new locks and for lists, and for no lock that stands."""
    before = await service.create(team.repository_id, team.alice, "f1", ref=ONE)
    await set_rules(service, team, *RULES)
    after = await service.create(team.repository_id, team.bob, "f1", ref=ONE)
    assert (before.space, after.space) == ("", ONE)
    assert await ids(service, team, ONE) == [after.id]
    await set_rules(service, team)
    assert await ids(service, team, ONE) == [before.id, after.id]
    with refused(AlreadyExists, Reason.PATH_LOCKED) as caught:
        await service.create(team.repository_id, team.alice, "f1", ref=ONE)
    assert caught.value.detail == before


async def test_many_paths(service: RunningLocks, team: Team) -> None:
    """Batches lock and unlock the paths of one space."""
    await set_rules(service, team, *RULES)

    async def lock(user: int, ref: str) -> pb.CreateLocksResponse:
        request = pb.CreateLocksRequest(repository_id=team.repository_id, user_id=user, paths=["a", "b"], ref=ref)
        return await service.peer.call(service.locks.CreateLocks, request)

    async def unlock(user: int, ref: str) -> Sequence[pb.Lock]:
        request = pb.DeleteLocksRequest(repository_id=team.repository_id, user_id=user, paths=["a", "b"], ref=ref)
        return (await service.peer.call(service.locks.DeleteLocks, request)).locks

    apart = (await lock(team.alice, ONE)).locks
    assert {each.space for each in apart} == {ONE}
    default = (await lock(team.bob, MAIN)).locks
    assert {each.space for each in default} == {""}
    assert [failure.lock for failure in (await lock(team.bob, ONE)).failures] == list(apart)
    assert list(await unlock(team.bob, "")) == list(default)
    assert list(await unlock(team.alice, ONE)) == list(apart)
    request = pb.ListReleasedLocksRequest(repository_id=team.repository_id, path="a")
    history = (await service.peer.call(service.locks.ListReleasedLocks, request)).locks
    assert [was.lock for was in history] == [apart[0], default[0]]


async def test_a_stolen_lock_stays_in_its_space(service: RunningLocks, team: Team) -> None:
    """And the lock of the same path in another space is not touched."""
    await set_rules(service, team, *RULES)
    default = await service.create(team.repository_id, team.alice, "f1")
    apart = await service.create(team.repository_id, team.alice, "f1", ref=ONE)
    request = pb.StealLockRequest(repository_id=team.repository_id, id=apart.id, user_id=team.bob, reason="x")
    answer = await service.peer.call(service.locks.StealLock, request)
    assert (answer.lock.space, answer.previous.lock) == (ONE, apart)
    assert await ids(service, team) == [default.id, answer.lock.id]
    assert await ids(service, team, ONE) == [answer.lock.id]


async def test_one_of_many_gets_the_lock_of_a_space(service: RunningLocks, team: Team) -> None:
    """The constraint holds in each space."""
    await set_rules(service, team, *RULES)

    async def create(user: int, ref: str) -> pb.Lock | None:
        try:
            return await service.create(team.repository_id, user, "f1", ref=ref)
        except AlreadyExists:
            return None

    refs = [MAIN, ONE, TWO, *ART]
    found = await asyncio.gather(*(create(user, ref) for user in (team.alice, team.bob) * 4 for ref in refs))
    assert sorted(lock.space for lock in found if lock) == sorted(["", ONE, TWO, "art"])


@pytest.mark.parametrize(
    "rules",
    [
        ["refs/heads/main"],
        ["=per-ref"],
        ["refs/heads/main="],
        ["main=per-ref"],
        ["refs/heads/[a]=per-ref"],
        ["refs/heads/main=no/name"],
        [f"refs/heads/{number}=per-ref" for number in range(101)],
    ],
    ids=lambda rules: rules[0],
)
async def test_rules_that_are_none(service: RunningLocks, team: Team, rules: list[str]) -> None:
    """A rule that no ref can match would look like a space and be none."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, "lock_spaces: "):
        await set_rules(service, team, *rules)
    create = admin.CreateRepositoryRequest(name=f"other/{team.repository}", lock_spaces=rules)
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await service.admin_peer.call(service.admin.CreateRepository, create)


async def test_events_tell_the_space(service: RunningLocks, team: Team) -> None:
    """A watcher of one branch has to know which changes are those of its space."""
    await set_rules(service, team, *RULES)
    async with watching(service.peer, team.repository_id) as watch:
        lock = await service.create(team.repository_id, team.alice, "f1", ref=ONE)
        await service.delete(team.repository_id, team.alice, lock.id)
        assert [event.lock for event in await watch.events(2)] == [lock, lock]
        assert lock.space == ONE
