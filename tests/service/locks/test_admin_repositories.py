"""AdminService: repositories. Their removal, which needs the storage service, is in test_admin_objects."""

import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, Reason
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused


async def _list(service: RunningLocks) -> list[admin.Repository]:
    request = admin.ListRepositoriesRequest()
    return list((await service.admin_peer.call(service.admin.ListRepositories, request)).repositories)


async def test_repositories(service: RunningLocks, team: Team) -> None:
    """A repository is private and lets writers force, unless told otherwise; the list is by name, byte for byte."""
    for name in ("z/b", "z/C", "z/a.c"):
        await service.add_repository(name)
    public_id = await service.add_repository("z/p", public=True, forced_unlock=admin.FORCED_UNLOCK_ADMINS)
    repositories = await _list(service)
    names = [repository.name for repository in repositories]
    assert names == sorted(names)
    assert {"z/b", "z/C", "z/a.c", team.repository} <= set(names)
    by_name = {repository.name: repository for repository in repositories}
    assert not by_name["z/b"].public
    assert by_name["z/b"].forced_unlock == admin.FORCED_UNLOCK_WRITERS
    assert (by_name["z/p"].id, by_name["z/p"].public) == (public_id, True)
    assert by_name["z/p"].forced_unlock == admin.FORCED_UNLOCK_ADMINS
    with refused(AlreadyExists, Reason.REPOSITORY_EXISTS):
        await service.add_repository("z/b")


async def test_look_alikes_are_refused(service: RunningLocks, team: Team) -> None:
    """Names that differ in case alone are taken for each other; the case of one's own may be changed."""
    await service.add_repository("Look/Alike")
    with refused(AlreadyExists, Reason.REPOSITORY_EXISTS) as caught:
        await service.add_repository("look/alike")
    assert "Look/Alike" in caught.value.message
    with refused(AlreadyExists, Reason.REPOSITORY_EXISTS, "new_name: "):
        await service.update_repository(team.repository, new_name="look/alike")
    renamed = await service.update_repository("Look/Alike", new_name="look/alike")
    assert renamed.name == "look/alike"


@pytest.mark.parametrize("name", ["-a", "-a/b", "info/lfs", "a/info/lfs"])
async def test_names_that_mean_something_else(service: RunningLocks, team: Team, name: str) -> None:
    """A command takes a "-" for an option, an address ends in "/info/lfs"; such a name of before is still looked up."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, "name: "):
        await service.add_repository(name)
    with refused(InvalidArgument, Reason.INVALID_FIELD, "new_name: "):
        await service.update_repository(team.repository, new_name=name)
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.grants(name)
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.update_repository(name, new_name="z/lfs")


async def test_malformed_names(service: RunningLocks, team: Team) -> None:
    """Every call that names a repository looks at the name, as tests/unit/locks/test_validation.py says."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, "name: "):
        await service.add_repository("a//b")
    with refused(InvalidArgument, Reason.INVALID_FIELD, "new_name: "):
        await service.update_repository(team.repository, new_name="a//b")
    listing = admin.ListRepositoryLocksRequest(repository="a//b")
    for attempt in (
        service.update_repository("a//b"),
        service.delete_repository("a//b"),
        service.grants("a//b"),
        service.admin_peer.call(service.admin.ListRepositoryLocks, listing),
    ):
        with refused(InvalidArgument, Reason.INVALID_FIELD):
            await attempt


async def test_a_rename_keeps_everything(service: RunningLocks, team: Team) -> None:
    """Locks and grants stay with the id; the old name leads to it until another repository takes it."""
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    new_name = f"renamed/{team.repository}"
    renamed = await service.update_repository(team.repository, new_name=new_name)
    assert (renamed.id, renamed.name) == (team.repository_id, new_name)
    assert await service.check(team.alice, new_name, access.PERMISSION_WRITE) == team.repository_id
    assert list((await service.list(team.repository_id)).locks) == [lock]
    assert await service.check(team.alice, team.repository, access.PERMISSION_READ) == team.repository_id
    assert await service.add_repository(team.repository) > team.repository_id
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.check(team.alice, team.repository, access.PERMISSION_READ)


async def test_only_what_is_set_changes(service: RunningLocks, team: Team) -> None:
    """A field that the request leaves out stays as it is."""
    changed = await service.update_repository(team.repository, public=True)
    assert (changed.public, changed.forced_unlock) == (True, admin.FORCED_UNLOCK_WRITERS)
    forced_unlock = admin.FORCED_UNLOCK_ADMINS
    changed = await service.update_repository(team.repository, forced_unlock=forced_unlock)
    assert (changed.public, changed.forced_unlock) == (True, forced_unlock)
    assert await service.update_repository(team.repository) == changed
    assert not (await service.update_repository(team.repository, new_name=team.repository, public=False)).public


async def test_a_taken_name(service: RunningLocks, team: Team) -> None:
    """Renaming to a name that is taken changes nothing."""
    await service.add_repository(f"taken/{team.repository}")
    with refused(AlreadyExists, Reason.REPOSITORY_EXISTS):
        await service.update_repository(team.repository, new_name=f"taken/{team.repository}", public=True)
    assert not {repository.name: repository for repository in await _list(service)}[team.repository].public
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.update_repository("no/such", public=True)


async def test_an_unknown_choice(service: RunningLocks, team: Team) -> None:
    """A value of forced_unlock that the contract does not know is refused."""
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await service.update_repository(team.repository, forced_unlock=9)
