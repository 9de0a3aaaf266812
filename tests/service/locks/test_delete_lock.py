"""DeleteLock (protocol: "Delete lock")."""

import uuid

import pytest
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import InvalidArgument, NotFound, PermissionDenied, Reason
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused


async def test_ones_own_lock(service: RunningLocks, team: Team) -> None:
    """The client shows the removed lock, so it comes back as it was; a second removal finds nothing (trap-21)."""
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    assert await service.delete(team.repository_id, team.alice, lock.id) == lock
    assert not (await service.list(team.repository_id)).locks
    with refused(NotFound, Reason.LOCK_NOT_FOUND):
        await service.delete(team.repository_id, team.alice, lock.id)


async def test_anothers_lock_needs_force(service: RunningLocks, team: Team) -> None:
    """An unlock without force must not pretend success: the lock stands, and only force removes it (trap-22)."""
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    with refused(PermissionDenied, Reason.LOCK_NOT_OWNED):
        await service.delete(team.repository_id, team.bob, lock.id)
    assert list((await service.list(team.repository_id)).locks) == [lock]
    assert await service.delete(team.repository_id, team.bob, lock.id, force=True) == lock
    assert not (await service.list(team.repository_id)).locks


async def test_force_may_be_kept_to_admins(service: RunningLocks, team: Team) -> None:
    """If the repository reserves force for admins, other users can still remove their own locks."""
    request = admin.UpdateRepositoryRequest(name=team.repository, forced_unlock=admin.FORCED_UNLOCK_ADMINS)
    await service.admin_peer.call(service.admin.UpdateRepository, request)
    own = await service.create(team.repository_id, team.bob, "own.dat")
    assert await service.delete(team.repository_id, team.bob, own.id, force=True) == own
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    with refused(PermissionDenied, Reason.FORCE_NOT_ALLOWED):
        await service.delete(team.repository_id, team.bob, lock.id, force=True)
    with refused(PermissionDenied, Reason.LOCK_NOT_OWNED):
        await service.delete(team.repository_id, team.bob, lock.id)
    await service.grant(team.bob_name, team.repository, admin.ROLE_ADMIN)
    assert await service.delete(team.repository_id, team.bob, lock.id, force=True) == lock


@pytest.mark.parametrize("role", [admin.ROLE_WRITE, admin.ROLE_ADMIN])
@pytest.mark.parametrize("forced_unlock", [admin.FORCED_UNLOCK_WRITERS, admin.FORCED_UNLOCK_ADMINS])
async def test_a_grant_for_some_refs_never_gives_force(
    service: RunningLocks, team: Team, role: "admin.Role.ValueType", forced_unlock: "admin.ForcedUnlock.ValueType"
) -> None:
    """The ref is what the client says: whoever may write one ref would else remove the lock of anybody."""
    name = f"some-refs/{team.repository}"
    repository_id = await service.add_repository(name, forced_unlock=forced_unlock)
    await service.grant(team.bob_name, name, admin.ROLE_READ)
    await service.grant(team.bob_name, name, role, ref_patterns=["refs/heads/bob"])
    lock = await service.create(repository_id, team.alice, "f1.dat")
    with refused(PermissionDenied, Reason.FORCE_NOT_ALLOWED) as caught:
        await service.delete(repository_id, team.bob, lock.id, force=True)
    assert team.alice_name in caught.value.message
    assert "every ref" in caught.value.message
    assert list((await service.list(repository_id)).locks) == [lock]
    own = await service.create(repository_id, team.bob, "own.dat")
    assert await service.delete(repository_id, team.bob, own.id, force=True) == own
    await service.grant(team.bob_name, name, admin.ROLE_ADMIN)
    assert await service.delete(repository_id, team.bob, lock.id, force=True) == lock


async def test_an_administrator_may_force(service: RunningLocks, team: Team) -> None:
    """An administrator could give themselves the grant, so force does not ask for a grant for every ref."""
    name = f"administered/{team.repository}"
    repository_id = await service.add_repository(name)
    request = admin.CreateUserRequest(name=f"root-{team.bob_name}", administrator=True)
    user = (await service.admin_peer.call(service.admin.CreateUser, request)).user
    await service.grant(user.name, name, admin.ROLE_WRITE, ref_patterns=["refs/heads/main"])
    lock = await service.create(repository_id, team.alice, "f1.dat")
    assert await service.delete(repository_id, user.id, lock.id, force=True) == lock


async def test_an_admin_elsewhere_is_none_here(service: RunningLocks, team: Team) -> None:
    """The role admin in another repository allows nothing in this one."""
    elsewhere = f"other/{team.repository}"
    await service.add_repository(elsewhere)
    await service.grant(team.bob_name, elsewhere, admin.ROLE_ADMIN)
    request = admin.UpdateRepositoryRequest(name=team.repository, forced_unlock=admin.FORCED_UNLOCK_ADMINS)
    await service.admin_peer.call(service.admin.UpdateRepository, request)
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    with refused(PermissionDenied, Reason.FORCE_NOT_ALLOWED):
        await service.delete(team.repository_id, team.bob, lock.id, force=True)


async def test_a_lock_of_another_repository(service: RunningLocks, team: Team) -> None:
    """A lock is looked up together with its repository, so that force reaches no other repository (trap-19)."""
    other = await service.add_repository(f"other/{team.repository}")
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    for force in (False, True):
        with refused(NotFound, Reason.LOCK_NOT_FOUND):
            await service.delete(other, team.alice, lock.id, force=force)
    assert list((await service.list(team.repository_id)).locks) == [lock]


@pytest.mark.parametrize("lock_id", ["", "x", "0", "-1", "01", "1/..", str(2**63), "9" * 1000, "\0"])
async def test_ids_that_no_lock_has(service: RunningLocks, team: Team, lock_id: str) -> None:
    """Whatever the id looks like, nothing is found by it."""
    with refused(NotFound, Reason.LOCK_NOT_FOUND):
        await service.delete(team.repository_id, team.alice, lock_id, force=True)


async def test_repeated_with_its_key(service: RunningLocks, team: Team) -> None:
    """The same key and user get the removed lock again; anybody else finds nothing."""
    key = uuid.uuid4().hex
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    for _ in range(2):
        assert await service.delete(team.repository_id, team.alice, lock.id, key=key) == lock
    for user, other_key in ((team.alice, ""), (team.alice, "another"), (team.bob, key)):
        with refused(NotFound, Reason.LOCK_NOT_FOUND):
            await service.delete(team.repository_id, user, lock.id, key=other_key)
    again = await service.create(team.repository_id, team.bob, "f1.dat")
    assert await service.delete(team.repository_id, team.alice, lock.id, key=key) == lock
    assert list((await service.list(team.repository_id)).locks) == [again]


async def test_malformed_keys(service: RunningLocks, team: Team) -> None:
    """A key is at most 64 characters, without NUL."""
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    for key in ("k" * 65, "\0"):
        with refused(InvalidArgument, Reason.INVALID_FIELD):
            await service.delete(team.repository_id, team.alice, lock.id, key=key)


async def test_an_unknown_user(service: RunningLocks, team: Team) -> None:
    """Nobody removes nothing: the history has to name who did it."""
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    with refused(NotFound, Reason.USER_NOT_FOUND):
        await service.delete(team.repository_id, 2**62, lock.id, force=True)
    assert list((await service.list(team.repository_id)).locks) == [lock]
