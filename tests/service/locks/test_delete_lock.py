"""DeleteLock beyond what tests/protocol/test_lock_delete.py and the cases of `lock_delete` say."""

import uuid

from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import NotFound, PermissionDenied, Reason
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused


async def test_an_admin_of_some_refs_has_no_force(service: RunningLocks, team: Team) -> None:
    """An admin of some refs removes no lock of others, because the client chooses the ref."""
    name = f"some-refs/{team.repository}"
    repository_id = await service.add_repository(name, forced_unlock=admin.FORCED_UNLOCK_ADMINS)
    await service.grant(team.bob_name, name, admin.ROLE_READ)
    await service.grant(team.bob_name, name, admin.ROLE_ADMIN, ref_patterns=["refs/heads/bob"])
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
    user = await service.add_user(f"root-{team.bob_name}", administrator=True)
    await service.grant(f"root-{team.bob_name}", name, admin.ROLE_WRITE, ref_patterns=["refs/heads/main"])
    lock = await service.create(repository_id, team.alice, "f1.dat")
    assert await service.delete(repository_id, user, lock.id, force=True) == lock


async def test_an_admin_elsewhere_is_none_here(service: RunningLocks, team: Team) -> None:
    """The role admin in another repository allows nothing in this one."""
    elsewhere = f"other/{team.repository}"
    await service.add_repository(elsewhere)
    await service.grant(team.bob_name, elsewhere, admin.ROLE_ADMIN)
    await service.update_repository(team.repository, forced_unlock=admin.FORCED_UNLOCK_ADMINS)
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    with refused(PermissionDenied, Reason.FORCE_NOT_ALLOWED):
        await service.delete(team.repository_id, team.bob, lock.id, force=True)


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


async def test_an_unknown_user(service: RunningLocks, team: Team) -> None:
    """Nobody removes nothing: the history has to name who did it."""
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    with refused(NotFound, Reason.USER_NOT_FOUND):
        await service.delete(team.repository_id, 2**62, lock.id, force=True)
    assert list((await service.list(team.repository_id)).locks) == [lock]
