"""StealLock: one transaction replaces the lock of another user."""

import asyncio
import uuid
from contextlib import suppress

import pytest
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Reason,
    ResourceExhausted,
    ServiceError,
)
from tests.service.locks.conftest import Team, new_team
from tests.support.locks import RunningLocks, refused, running_locks
from tests.support.postgres import TestPostgres

REASON = "the release is due, and alice is on leave"


async def steal(
    service: RunningLocks,
    team: Team,
    user: int,
    lock_id: str,
    *,
    reason: str = REASON,
    note: str = "",
    key: str = "",
) -> pb.StealLockResponse:
    """Steal a lock; a conflict carries the standing one as its detail."""
    request = pb.StealLockRequest(
        repository_id=team.repository_id, id=lock_id, user_id=user, reason=reason, note=note, idempotency_key=key
    )
    return await service.peer.call(service.locks.StealLock, request, detail=pb.Lock())


async def make_older(service: RunningLocks, lock_id: str, days: float) -> None:
    """Let a lock be older than it is."""
    statement = "UPDATE locks SET locked_at = locked_at - make_interval(secs => :seconds) WHERE id = :id"
    await service.execute(statement, seconds=days * 86_400, id=int(lock_id))


async def test_one_of_fifty_contenders_wins(service: RunningLocks, team: Team) -> None:
    """One gets the lock and leaves one record; the others learn of the lock that stands now."""
    users = [await service.add_user(f"thief-{number}-{team.repository_id}") for number in range(50)]
    for number in range(50):
        await service.grant(f"thief-{number}-{team.repository_id}", team.repository, admin.ROLE_WRITE)
    old = await service.create(team.repository_id, team.alice, "f1.dat")

    async def attempt(user: int) -> pb.StealLockResponse | ServiceError:
        try:
            return await steal(service, team, user, old.id)
        except ServiceError as error:
            return error

    answers = await asyncio.gather(*map(attempt, users))
    [won] = [answer for answer in answers if isinstance(answer, pb.StealLockResponse)]
    lost = [answer for answer in answers if isinstance(answer, ServiceError)]
    assert {(type(error), error.reason) for error in lost} == {(AlreadyExists, Reason.PATH_LOCKED)}
    assert all(error.detail == won.lock for error in lost)
    assert list((await service.list(team.repository_id)).locks) == [won.lock]
    request = pb.ListReleasedLocksRequest(repository_id=team.repository_id)
    assert list((await service.peer.call(service.locks.ListReleasedLocks, request)).locks) == [won.previous]


async def test_thefts_beside_other_changes(service: RunningLocks, team: Team) -> None:
    """Thefts, creations and removals of the same paths end, and leave one owner for each path."""
    paths = [f"f{number}" for number in range(4)]

    async def change(user: int) -> None:
        for _ in range(5):
            for path in paths:
                try:
                    await service.create(team.repository_id, user, path)
                except AlreadyExists as error:
                    # Meanwhile the lock may have gone to another user, or be one's own.
                    with suppress(AlreadyExists, NotFound, InvalidArgument):
                        await steal(service, team, user, getattr(error.detail, "id", ""))
            request = pb.DeleteLocksRequest(repository_id=team.repository_id, user_id=user, paths=paths[::-1])
            await service.peer.call(service.locks.DeleteLocks, request)

    await asyncio.gather(*(change(user) for user in (team.alice, team.bob) * 4))
    assert not (await service.list(team.repository_id)).locks
    counts = "SELECT sum(count) FROM locks_per_user WHERE repository_id = :id"
    assert await service.execute(counts, id=team.repository_id) == [(0,)]


async def test_repeated_with_its_key(service: RunningLocks, team: Team) -> None:
    """The same key and user get the same answer again; anybody else learns of the lock that stands."""
    key = uuid.uuid4().hex
    old = await service.create(team.repository_id, team.alice, "f1.dat")
    first = await steal(service, team, team.bob, old.id, key=key)
    assert await steal(service, team, team.bob, old.id, key=key) == first
    for user, other_key in ((team.bob, "another"), (team.bob, ""), (team.alice, key)):
        with refused(AlreadyExists, Reason.PATH_LOCKED) as caught:
            await steal(service, team, user, old.id, key=other_key)
        assert caught.value.detail == first.lock
    await service.delete(team.repository_id, team.bob, first.lock.id)
    with refused(NotFound, Reason.LOCK_NOT_FOUND):
        await steal(service, team, team.bob, old.id, key=key)
    assert len(await service.released(team.repository)) == 2


async def test_a_lock_of_another_repository(service: RunningLocks, team: Team) -> None:
    """A standing or released lock is looked up together with its repository (trap-19); a text finds none."""
    other = await service.add_repository(f"other/{team.repository}")
    lock = await service.create(other, team.alice, "f1.dat")
    for lock_id in (lock.id, "x", ""):
        with refused(NotFound, Reason.LOCK_NOT_FOUND):
            await steal(service, team, team.bob, lock_id)
    await service.delete(other, team.alice, lock.id)
    await service.create(team.repository_id, team.alice, "f1.dat")
    with refused(NotFound, Reason.LOCK_NOT_FOUND):
        await steal(service, team, team.bob, lock.id)


async def test_unknown_parties(service: RunningLocks, team: Team) -> None:
    """The history has to name who stole a lock."""
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    with refused(NotFound, Reason.USER_NOT_FOUND):
        await steal(service, team, 2**62, lock.id)
    assert list((await service.list(team.repository_id)).locks) == [lock]


async def test_a_stale_lock_needs_none(service: RunningLocks, team: Team) -> None:
    """From the age on that the repository names, every writer may steal a lock; before it, who may use force."""
    await service.update_repository(team.repository, forced_unlock=admin.FORCED_UNLOCK_ADMINS)
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    await make_older(service, lock.id, 13)
    for days in (0, 14):
        await service.update_repository(team.repository, stale_after_seconds=days * 86_400)
        with refused(PermissionDenied, Reason.FORCE_NOT_ALLOWED):
            await steal(service, team, team.bob, lock.id)
    await make_older(service, lock.id, 1.001)
    new = (await steal(service, team, team.bob, lock.id)).lock
    assert new.owner_id == team.bob
    with refused(PermissionDenied, Reason.FORCE_NOT_ALLOWED):
        await steal(service, team, team.alice, new.id)
    await service.grant(team.alice_name, team.repository, admin.ROLE_ADMIN)
    assert (await steal(service, team, team.alice, new.id)).previous.lock == new


async def test_the_limit_of_the_thief(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A theft counts as a lock of the thief, and adds none to a repository that is full."""
    limits = {"locks_per_repository": 3, "locks_per_user": 2}
    folder = tmp_path_factory.mktemp("limited")
    async with running_locks(await postgres.create_database(), folder, limits=limits) as service:
        team = await new_team(service)
        old = [await service.create(team.repository_id, team.alice, path) for path in ("a", "b")]
        await service.create(team.repository_id, team.bob, "c")
        await steal(service, team, team.bob, old[0].id)
        with refused(ResourceExhausted, Reason.TOO_MANY_LOCKS) as caught:
            await steal(service, team, team.bob, old[1].id)
        assert "locks_per_user" in caught.value.message
