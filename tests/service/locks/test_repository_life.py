"""The life of a repository: archived, renamed with an earlier name that goes on, removed into the bin, and back."""

import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1.push_service_pb2 import ReleasePushedRequest
from towpath.storage.v1 import storage_service_pb2 as storage_pb

from services.common.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Reason,
    Unauthenticated,
)
from tests.service.locks.conftest import Both
from tests.support.locks import RunningLocks, refused, running_locks
from tests.support.postgres import TestPostgres
from tests.support.waiting import until_answer

_numbers = itertools.count(1)
READ, WRITE, ANY_REF = access.PERMISSION_READ, access.PERMISSION_WRITE, access.PERMISSION_WRITE_ANY_REF


@dataclass(frozen=True)
class Film:
    """A private repository where alice writes, with an object and a lock of hers."""

    both: Both
    name: str
    id: int
    alice: int
    oid: str
    lock_id: str

    async def is_whole(self, name: str) -> bool:
        """Return whether the repository has its grant, its object and its lock under this name."""
        found = await self.both.locks.check(self.alice, name, WRITE)
        statuses = await self.both.storage.statuses(self.id, self.oid)
        locks = [lock.id for lock in (await self.both.locks.list(self.id)).locks]
        return (found, statuses, locks) == (self.id, [storage_pb.OBJECT_STATUS_PRESENT], [self.lock_id])


@pytest.fixture
async def film(both: Both) -> Film:
    """A repository for one test."""
    number = next(_numbers)
    name, user = f"life/film-{number}", f"alice-{number}"
    repository_id = await both.locks.add_repository(name)
    alice = await both.locks.add_user(user)
    await both.locks.grant(user, name, admin.ROLE_WRITE)
    oid = await both.storage.write(repository_id, name.encode())
    lock = await both.locks.create(repository_id, alice, "a.uasset")
    return Film(both, name, repository_id, alice, oid, lock.id)


async def restore(service: RunningLocks, name: str, *, new_name: str = "", repository_id: int = 0) -> admin.Repository:
    """Take a repository out of the bin."""
    request = admin.RestoreRepositoryRequest(name=name, new_name=new_name, id=repository_id)
    return (await service.admin_peer.call(service.admin.RestoreRepository, request)).repository


async def purge(service: RunningLocks, name: str, *, repository_id: int = 0) -> admin.Repository:
    """Remove a repository in the bin for good."""
    request = admin.PurgeRepositoryRequest(name=name, id=repository_id)
    return (await service.admin_peer.call(service.admin.PurgeRepository, request)).repository


async def listed(service: RunningLocks, *, removed: bool = False) -> list[admin.Repository]:
    """Return the repositories, or those in the bin."""
    request = admin.ListRepositoriesRequest(removed=removed)
    return list((await service.admin_peer.call(service.admin.ListRepositories, request)).repositories)


async def test_an_archived_repository_is_read_only(film: Film) -> None:
    """Nobody writes, whatever the role; its locks and objects stand, and it can be changed again later."""
    service = film.both.locks
    archived = await service.update_repository(film.name, archived=True)
    assert archived.HasField("archived_at")
    assert await service.check(film.alice, film.name, READ) == film.id
    for permission in (WRITE, ANY_REF):
        with refused(PermissionDenied, Reason.REPOSITORY_ARCHIVED) as caught:
            await service.check(film.alice, film.name, permission)
        assert "archived" in caught.value.message
    assert [lock.id for lock in (await service.list(film.id)).locks] == [film.lock_id]
    again = await service.update_repository(film.name, archived=True)
    assert again == archived
    unarchived = await service.update_repository(film.name, archived=False)
    assert not unarchived.HasField("archived_at")
    assert await film.is_whole(film.name)


async def test_administrators_add_nothing_to_an_archived_repository(film: Film) -> None:
    """No lock for anybody, and no object of another repository; what is there can be removed."""
    service = film.both.locks
    other = f"{film.name}/other"
    await service.add_repository(other)
    await service.update_repository(film.name, archived=True)
    stub, call = service.admin, service.admin_peer.call
    with refused(FailedPrecondition, Reason.REPOSITORY_ARCHIVED):
        await call(stub.LockPaths, admin.LockPathsRequest(repository=film.name, paths=["b.uasset"]))
    with refused(FailedPrecondition, Reason.REPOSITORY_ARCHIVED):
        await call(stub.StealLock, admin.StealLockRequest(repository=film.name, id=film.lock_id, reason="away"))
    with refused(FailedPrecondition, Reason.REPOSITORY_ARCHIVED, "to_repository: "):
        await call(
            stub.CopyObjects,
            admin.CopyObjectsRequest(repository=other, to_repository=film.name, oids=[film.oid]),
        )
    copied = await call(
        stub.CopyObjects, admin.CopyObjectsRequest(repository=film.name, to_repository=other, oids=[film.oid])
    )
    assert list(copied.copied_oids) == [film.oid]
    await call(stub.RemoveLock, admin.RemoveLockRequest(repository=film.name, id=film.lock_id, reason="done"))
    assert not (await service.list(film.id)).locks


async def test_a_push_to_an_archived_repository_releases_no_lock(film: Film) -> None:
    """As its owner could not release it either."""
    service = film.both.locks
    patterns = admin.RefPatterns(patterns=["refs/heads/main"])
    await service.update_repository(film.name, release_on=patterns, archived=True)
    owner = f"alice-{film.name.rpartition('-')[2]}"
    pushed = ReleasePushedRequest(
        repository=film.name, user_name=owner, ref="refs/heads/main", paths=["a.uasset"], reason="pushed"
    )
    push = service.push
    assert not (await service.admin_peer.call(push.ReleasePushed, pushed)).is_release_ref
    await service.update_repository(film.name, archived=False)
    assert await film.is_whole(film.name)
    assert [lock.path for lock in (await service.admin_peer.call(push.ReleasePushed, pushed)).locks] == ["a.uasset"]


async def test_a_stranger_does_not_learn_that_a_repository_is_archived(film: Film) -> None:
    """A refusal is the same as before for who could not write anyway."""
    service = film.both.locks
    reader, stranger = f"reader-{film.id}", f"stranger-{film.id}"
    ids = [await service.add_user(name) for name in (reader, stranger)]
    await service.grant(reader, film.name, admin.ROLE_READ)
    await service.update_repository(film.name, archived=True)
    with refused(PermissionDenied, Reason.ACCESS_DENIED):
        await service.check(ids[0], film.name, WRITE)
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.check(ids[1], film.name, WRITE)
    with refused(Unauthenticated, Reason.CREDENTIALS_REQUIRED):
        await service.check(0, film.name, WRITE)


async def test_a_removed_repository_comes_back_with_all_that_it_had(film: Film) -> None:
    """Nobody reaches it in the bin, and the bin says until when it is there."""
    service = film.both.locks
    removed = await service.delete_repository(film.name, force=True)
    assert (removed.id, removed.name) == (film.id, film.name)
    days = (removed.bin_until.seconds - removed.removed_at.seconds) / 86_400
    assert days == pytest.approx(30)
    for name in (film.name, f"{film.name}:{film.id}"):
        with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
            await service.check(film.alice, name, READ)
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.delete_repository(film.name, force=True)
    assert film.id not in {repository.id for repository in await listed(service)}
    assert (await listed(service, removed=True))[0] == removed
    restored = await restore(service, film.name)
    assert not restored.HasField("removed_at")
    assert await film.is_whole(film.name)
    assert film.id not in {repository.id for repository in await listed(service, removed=True)}


async def test_the_name_of_a_removed_repository_is_free(film: Film) -> None:
    """The repository that takes it has nothing of the other, which comes back by another name."""
    service = film.both.locks
    await service.delete_repository(film.name, force=True)
    successor = await service.add_repository(film.name)
    assert not (await service.list(successor)).locks
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.check(film.alice, film.name, READ)
    with refused(AlreadyExists, Reason.REPOSITORY_EXISTS):
        await restore(service, film.name)
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await restore(service, film.name, new_name="a//b")
    assert (await restore(service, film.name, new_name=f"{film.name}/back")).id == film.id
    assert await film.is_whole(f"{film.name}/back")


async def test_of_several_in_the_bin_the_last_one_is_meant(film: Film) -> None:
    """Or the one with an id."""
    service = film.both.locks
    await service.delete_repository(film.name, force=True)
    second = await service.add_repository(film.name)
    await service.delete_repository(film.name, force=True)
    assert [entry.id for entry in await listed(service, removed=True)][:2] == [second, film.id]
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await restore(service, film.name, repository_id=10_000_000)
    assert (await purge(service, film.name)).id == second
    assert (await restore(service, film.name, repository_id=film.id)).id == film.id
    assert await film.is_whole(film.name)


async def test_a_purged_repository_is_gone(film: Film) -> None:
    """Its objects and grants go, and its locks are in the history; only what is in the bin can be purged."""
    service, storage = film.both.locks, film.both.storage
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await purge(service, film.name)
    await service.delete_repository(film.name, force=True)
    assert await storage.statuses(film.id, film.oid) == [storage_pb.OBJECT_STATUS_PRESENT]
    assert (await purge(service, film.name)).id == film.id
    assert await storage.statuses(film.id, film.oid) == [storage_pb.OBJECT_STATUS_MISSING]
    assert not (await service.list(film.id)).locks
    for call in (purge(service, film.name), restore(service, film.name)):
        with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
            await call


async def test_a_user_with_locks_in_the_bin_alone_can_be_removed(film: Film) -> None:
    """Nobody sees these locks, nor could release them."""
    service = film.both.locks
    await service.delete_repository(film.name, force=True)
    await service.delete_user(f"alice-{film.name.rpartition('-')[2]}")


async def test_what_was_in_the_bin_for_its_time_is_purged(film: Film) -> None:
    """By whichever lock service looks first; others in the bin stay."""
    service = film.both.locks
    other = await service.add_repository(f"{film.name}/other")
    for name in (film.name, f"{film.name}/other"):
        await service.delete_repository(name, force=True)
    await service.execute("UPDATE repositories SET in_bin_until = now() WHERE id = :id", id=film.id)
    async with service.second(film.both.folder, storage_address=film.both.storage.address):
        missing = [storage_pb.OBJECT_STATUS_MISSING]
        await until_answer(missing, lambda: film.both.storage.statuses(film.id, film.oid))
    assert other in {entry.id for entry in await listed(service, removed=True)}
    events = (await service.admin_peer.call(service.admin.ListAuditEvents, admin.ListAuditEventsRequest())).events
    purged = next(event for event in events if event.type == "org.towpath.repository.purged")
    assert (purged.actor, purged.repository) == ("towpath", film.name)


async def test_an_earlier_name_leads_to_a_renamed_repository(film: Film) -> None:
    """Over several renames, and no longer than until another repository has the name."""
    service = film.both.locks
    names = [film.name, f"{film.name}/second", f"{film.name}/third"]
    for name, new_name in itertools.pairwise(names):
        await service.update_repository(name, new_name=new_name)
    for name in names:
        assert await film.is_whole(name)
    successor = await service.add_repository(names[1])
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.check(film.alice, names[1], READ)
    await service.update_repository(names[1], new_name=names[0])
    assert {entry.id for entry in await listed(service) if entry.name == names[0]} == {successor}
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.check(film.alice, names[0], READ)
    assert await film.is_whole(names[2])


async def test_an_earlier_name_ends(film: Film) -> None:
    """After its time, when its repository is in the bin, and when the repository gets it back."""
    service = film.both.locks
    new_name = f"{film.name}/renamed"
    await service.update_repository(film.name, new_name=new_name)
    await service.delete_repository(new_name, force=True)
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.check(film.alice, film.name, READ)
    await restore(service, new_name)
    assert await film.is_whole(film.name)
    await service.execute("UPDATE repository_aliases SET valid_until = now()")
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.check(film.alice, film.name, READ)
    await service.update_repository(new_name, new_name=film.name)
    assert await film.is_whole(film.name)


async def test_the_end_of_an_earlier_name_is_told_as_a_change_of_access(film: Film) -> None:
    """Facades forget where the name led."""
    service = film.both.locks
    await service.update_repository(film.name, new_name=f"{film.name}/renamed")

    async def watch(known: dict[str, int]) -> dict[str, int]:
        request = access.WatchAccessRequest(known=known)
        reply = await service.peer.call(service.access.WatchAccess, request)
        return {reply.source: reply.changes}

    known = await watch({})
    await service.add_repository(f"{film.name}/unrelated")
    assert await watch(known) == known
    await service.add_repository(film.name)
    assert await watch(known) != known


async def test_without_days_for_it_an_earlier_name_is_none(postgres: TestPostgres, tmp_path: Path) -> None:
    """As an installation may want that gives names away at once."""
    async with running_locks(await postgres.create_database(), tmp_path, limits={"alias_days": 0}) as service:
        await service.add_repository("film", public=True)
        await service.update_repository("film", new_name="movie")
        with refused(Unauthenticated, Reason.CREDENTIALS_REQUIRED):
            await service.check(0, "film", READ)
