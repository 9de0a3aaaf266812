"""AdminService: locks that stand, and those that stood."""

from typing import Any

from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, Reason
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused


async def _list(service: RunningLocks, repository: str, **fields: Any) -> admin.ListRepositoryLocksResponse:  # noqa: ANN401 - those of the request
    request = admin.ListRepositoryLocksRequest(repository=repository, **fields)
    return await service.admin_peer.call(service.admin.ListRepositoryLocks, request)


async def test_standing_locks(service: RunningLocks, team: Team) -> None:
    """The same pages as ListLocks, by the repository's name."""
    locks = [await service.create(team.repository_id, team.alice, f"f{number}") for number in range(3)]
    page = await _list(service, team.repository, limit=2)
    assert list(page.locks) == locks[:2]
    page = await _list(service, team.repository, limit=2, cursor=page.next_cursor)
    assert (list(page.locks), page.next_cursor) == (locks[2:], "")
    assert list((await _list(service, team.repository, path="f1")).locks) == [locks[1]]
    assert not (await _list(service, team.repository, path="\0")).locks


async def test_an_administrator_removes_any_lock(service: RunningLocks, team: Team) -> None:
    """The history names the administrator who removes a lock, even if only repository admins may force."""
    await service.update_repository(team.repository, forced_unlock=admin.FORCED_UNLOCK_ADMINS)
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    remove = admin.RemoveLockRequest(repository=team.repository, id=lock.id)
    assert (await service.admin_peer.call(service.admin.RemoveLock, remove)).lock == lock
    assert not (await service.list(team.repository_id)).locks
    [released] = await service.released(team.repository)
    assert (released.lock, released.released_by, released.forced) == (lock, "admin", True)
    with refused(NotFound, Reason.LOCK_NOT_FOUND):
        await service.admin_peer.call(service.admin.RemoveLock, remove)


async def test_a_lock_of_another_repository(service: RunningLocks, team: Team) -> None:
    """A lock is looked up together with its repository, so that its id opens no other repository (trap-19)."""
    other = f"other/{team.repository}"
    await service.add_repository(other)
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    for lock_id in (lock.id, "x", ""):
        with refused(NotFound, Reason.LOCK_NOT_FOUND):
            await service.admin_peer.call(
                service.admin.RemoveLock, admin.RemoveLockRequest(repository=other, id=lock_id)
            )


async def test_history(service: RunningLocks, team: Team) -> None:
    """The history has a lock's holder, its releaser, the time and the force, the latest release first (trap-37)."""
    mine = await service.create(team.repository_id, team.alice, "f1.dat")
    await service.delete(team.repository_id, team.alice, mine.id, force=True)
    taken = await service.create(team.repository_id, team.alice, "f1.dat")
    await service.delete(team.repository_id, team.bob, taken.id, force=True)
    other = await service.create(team.repository_id, team.bob, "f2.dat")
    await service.delete(team.repository_id, team.bob, other.id)
    history = await service.released(team.repository)
    assert [(was.lock, was.released_by, was.forced) for was in history] == [
        (other, team.bob_name, False),
        (taken, team.bob_name, True),
        (mine, team.alice_name, False),
    ]
    assert all(was.released_at.seconds >= was.lock.locked_at.seconds for was in history)
    assert [was.lock for was in await service.released(team.repository, path="f1.dat")] == [taken, mine]
    assert not await service.released(team.repository, path="f1.da\0")


async def test_malformed_cursors_and_unknown_repositories(service: RunningLocks, team: Team) -> None:
    """Both lists refuse them alike."""
    for attempt in (_list(service, team.repository, cursor="x"), service.released(team.repository, cursor="x")):
        with refused(InvalidArgument, Reason.INVALID_CURSOR):
            await attempt
    for attempt in (_list(service, "no/such"), service.released("no/such")):
        with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
            await attempt
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.admin_peer.call(service.admin.RemoveLock, admin.RemoveLockRequest(repository="no/such", id="1"))


async def test_an_administrator_steals_for_a_user(service: RunningLocks, team: Team) -> None:
    """Whoever holds the lock, and whatever force the user has: the history and the event name the administrator."""
    await service.update_repository(team.repository, forced_unlock=admin.FORCED_UNLOCK_ADMINS)
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    steal = admin.StealLockRequest(
        repository=team.repository, id=lock.id, user_name=team.bob_name, reason="alice is on leave", note="for the fix"
    )
    answer = await service.admin_peer.call(service.admin.StealLock, steal)
    assert (answer.lock.owner_name, answer.lock.note) == (team.bob_name, "for the fix")
    previous = answer.previous
    assert (previous.lock, previous.released_by, previous.reason) == (lock, "admin", "alice is on leave")
    assert (previous.stolen, previous.forced) == (True, True)
    assert list(await service.released(team.repository)) == [previous]
    caused_by = "SELECT caused_by FROM lock_events WHERE repository_id = :id AND type = 'lock.stolen'"
    assert await service.execute(caused_by, id=team.repository_id) == [("admin",)]
    with refused(AlreadyExists, Reason.PATH_LOCKED):
        await service.admin_peer.call(service.admin.StealLock, steal)
    again = admin.StealLockRequest(repository=team.repository, id=answer.lock.id, user_name=team.bob_name, reason="x")
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await service.admin_peer.call(service.admin.StealLock, again)
    own = admin.StealLockRequest(repository=team.repository, id=answer.lock.id, reason="back")
    assert (await service.admin_peer.call(service.admin.StealLock, own)).lock.owner_name == "admin"
    unknown = admin.StealLockRequest(repository=team.repository, id="1", user_name="nobody", reason="x")
    with refused(NotFound, Reason.USER_NOT_FOUND):
        await service.admin_peer.call(service.admin.StealLock, unknown)
