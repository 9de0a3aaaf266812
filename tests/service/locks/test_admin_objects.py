"""AdminService with the storage service: objects, usage, and the removal of repositories without a bin."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.storage.v1 import storage_service_pb2 as storage_pb

from services.common.errors import DeadlineExceeded, FailedPrecondition, InvalidArgument, NotFound, Reason
from tests.service.locks.conftest import Both, running_both
from tests.support.locks import RunningLocks, refused, running_locks, serving_locks
from tests.support.postgres import TestPostgres
from tests.support.storage import oid_of, running_storage
from tests.support.waiting import until_answer


@pytest.fixture(scope="module")
async def both(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Both]:
    """Both services, without a bin for repositories."""
    folder = tmp_path_factory.mktemp("both")
    async with running_both(postgres, folder, limits={"repository_bin_days": 0}) as running:
        yield running


async def _objects(
    service: RunningLocks, repository: str, *, cursor: str = "", limit: int = 0
) -> admin.ListRepositoryObjectsResponse:
    request = admin.ListRepositoryObjectsRequest(repository=repository, cursor=cursor, limit=limit)
    return await service.admin_peer.call(service.admin.ListRepositoryObjects, request)


async def _remove(service: RunningLocks, repository: str, oid: str, reason: str = "licence") -> storage_pb.Object:
    request = admin.RemoveObjectRequest(repository=repository, oid=oid, reason=reason)
    return (await service.admin_peer.call(service.admin.RemoveObject, request)).object


async def _restore(
    service: RunningLocks, repository: str, oid: str, *, bytes_required: bool = False
) -> admin.RestoreObjectResponse:
    request = admin.RestoreObjectRequest(repository=repository, oid=oid, bytes_required=bytes_required)
    return await service.admin_peer.call(service.admin.RestoreObject, request)


async def _purge(service: RunningLocks, repository: str, oid: str) -> admin.PurgeObjectResponse:
    request = admin.PurgeObjectRequest(repository=repository, oid=oid)
    return await service.admin_peer.call(service.admin.PurgeObject, request)


async def _copy(service: RunningLocks, repository: str, to: str, *oids: str) -> admin.CopyObjectsResponse:
    request = admin.CopyObjectsRequest(repository=repository, to_repository=to, oids=oids)
    return await service.admin_peer.call(service.admin.CopyObjects, request)


async def _usage(service: RunningLocks, repository: str = "") -> admin.ListUsageResponse:
    return await service.admin_peer.call(service.admin.ListUsage, admin.ListUsageRequest(repository=repository))


async def test_objects_in_pages(both: Both) -> None:
    """Objects are listed by oid, those of this repository alone, also after a rename."""
    name, repository_id = await both.add_repository()
    _, other_id = await both.add_repository()
    await both.storage.write(other_id, b"not here")
    oids = sorted([await both.storage.write(repository_id, bytes([number])) for number in range(3)])
    await both.locks.update_repository(name, new_name=f"{name}/renamed")
    page = await _objects(both.locks, f"{name}/renamed", limit=2)
    assert [found.oid for found in page.objects] == oids[:2]
    page = await _objects(both.locks, f"{name}/renamed", limit=2, cursor=page.next_cursor)
    assert [found.oid for found in page.objects] == oids[2:]
    assert page.next_cursor == ""


async def test_objects_in_another_order(both: Both) -> None:
    """The order, the state and the cursor are those of the storage service."""
    name, repository_id = await both.add_repository()
    oids = [await both.storage.write(repository_id, bytes(size), user_id=3) for size in (2, 9, 4)]
    ask = partial(both.locks.admin_peer.call, both.locks.admin.ListRepositoryObjects)
    largest = admin.ListRepositoryObjectsRequest(repository=name, order=storage_pb.OBJECT_ORDER_LARGEST, limit=2)
    page = await ask(largest)
    assert [(found.oid, found.added_by) for found in page.objects] == [(oids[1], 3), (oids[2], 3)]
    largest.cursor = page.next_cursor
    assert [found.oid for found in (await ask(largest)).objects] == [oids[0]]
    with refused(InvalidArgument, Reason.INVALID_CURSOR):
        await _objects(both.locks, name, cursor=page.next_cursor)
    await _remove(both.locks, name, oids[0])
    in_bin = admin.ListRepositoryObjectsRequest(repository=name, state=storage_pb.OBJECT_STATE_BIN)
    assert [found.oid for found in (await ask(in_bin)).objects] == [oids[0]]
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await ask(admin.ListRepositoryObjectsRequest(repository=name, state=9))  # type: ignore[arg-type] # wrong on purpose


async def test_removal_and_restoration(both: Both) -> None:
    """The tombstone tells why, by whom, and until when the object can come back with its bytes."""
    name, repository_id = await both.add_repository()
    oid = await both.storage.write(repository_id, b"to be removed")
    tombstone = await _remove(both.locks, name, oid)
    assert (tombstone.oid, tombstone.removal_reason, tombstone.removed_by) == (oid, "licence", "admin")
    assert await both.storage.statuses(repository_id, oid) == [storage_pb.OBJECT_STATUS_REMOVED]
    assert (await _objects(both.locks, name)).objects[0].removal_reason == "licence"
    assert tombstone.HasField("bin_until")
    restored = await _restore(both.locks, name, oid, bytes_required=True)
    assert (restored.object.oid, restored.object.HasField("removed_at")) == (oid, False)
    assert await both.storage.read(repository_id, oid) == b"to be removed"


async def test_purge(both: Both) -> None:
    """A purge names the other repositories that need the bytes; after it the object can only be uploaded again."""
    name, repository_id = await both.add_repository()
    other, other_id = await both.add_repository()
    for id_ in (repository_id, other_id):
        oid = await both.storage.write(id_, b"to be purged")
        await _remove(both.locks, name if id_ == repository_id else other, oid)
    assert list((await _purge(both.locks, name, oid)).repositories) == [other]
    assert list((await _purge(both.locks, other, oid)).repositories) == []
    with refused(FailedPrecondition, Reason.OBJECT_PURGED):
        await _restore(both.locks, name, oid, bytes_required=True)
    assert not (await _restore(both.locks, name, oid)).HasField("object")
    assert await both.storage.statuses(repository_id, oid) == [storage_pb.OBJECT_STATUS_MISSING]
    with refused(NotFound, Reason.OBJECT_NOT_FOUND):
        await _purge(both.locks, name, oid)


async def test_copies_for_a_fork(both: Both) -> None:
    """Another repository holds the objects too, but none that was removed from it."""
    name, repository_id = await both.add_repository()
    fork, fork_id = await both.add_repository()
    held, lost = [await both.storage.write(repository_id, data) for data in (b"to be copied", b"removed in the fork")]
    await both.storage.write(fork_id, b"removed in the fork")
    await _remove(both.locks, fork, lost)
    copied = await _copy(both.locks, name, fork, held, lost, oid_of(b"unknown"))
    assert copied == admin.CopyObjectsResponse(
        copied_oids=[held], missing_oids=[oid_of(b"unknown")], removed_oids=[lost]
    )
    assert await both.storage.read(fork_id, held) == b"to be copied"
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await _copy(both.locks, name, name, held)
    with refused(InvalidArgument, Reason.BATCH_TOO_LARGE):
        await _copy(both.locks, name, fork, *[held] * 1001)


async def test_errors_of_the_storage_service(both: Both) -> None:
    """An administrator must see the refusal of the storage service unchanged."""
    name, repository_id = await both.add_repository()
    oid = await both.storage.write(repository_id, b"held")
    with refused(NotFound, Reason.OBJECT_NOT_FOUND):
        await _remove(both.locks, name, oid_of(b"unknown"))
    with refused(NotFound, Reason.OBJECT_NOT_FOUND):
        await _restore(both.locks, name, oid)
    for reason in ("", "x" * 1001, "a\0b"):
        with refused(InvalidArgument, Reason.INVALID_FIELD):
            await _remove(both.locks, name, oid, reason)
    for bad in ("", "../../x", oid.upper(), "\0"):
        with refused(InvalidArgument, Reason.INVALID_OID):
            await _remove(both.locks, name, bad)
    with refused(InvalidArgument, Reason.INVALID_CURSOR):
        await _objects(both.locks, name, cursor="\0")
    assert await both.storage.statuses(repository_id, oid) == [storage_pb.OBJECT_STATUS_PRESENT]


async def test_usage(both: Both) -> None:
    """Objects, bytes and locks of one repository or of all by name."""
    name, repository_id = await both.add_repository()
    empty, _ = await both.add_repository()
    alice = await both.locks.add_user(f"alice-{repository_id}")
    await both.storage.write(repository_id, b"four")
    await both.locks.create(repository_id, alice, "f1.dat")
    one = await _usage(both.locks, name)
    assert [(used.repository, used.usage.object_count, used.usage.object_bytes, used.locks) for used in one.usage] == [
        (name, 1, 4, 1)
    ]
    assert one.usage[0].usage.bytes_in_today == 4
    assert one.available_bytes > 0
    everything = await _usage(both.locks)
    names = [used.repository for used in everything.usage]
    assert names == sorted(names)
    by_name = {used.repository: used for used in everything.usage}
    assert by_name[name] == one.usage[0]
    assert (by_name[empty].usage.object_count, by_name[empty].locks) == (0, 0)


async def test_usage_by_day(both: Both) -> None:
    """Of one repository, what it held at the end of each of the last days."""
    name, repository_id = await both.add_repository()
    await both.storage.write(repository_id, b"four")
    ask = partial(both.locks.admin_peer.call, both.locks.admin.ListUsage)
    by_day = (await ask(admin.ListUsageRequest(repository=name, days=3))).usage[0].usage.by_day
    assert [(held.object_count, held.object_bytes) for held in by_day] == [(0, 0), (0, 0), (1, 4)]
    await both.add_repository()
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await ask(admin.ListUsageRequest(days=3))


async def test_unknown_repositories(both: Both) -> None:
    """Every call that names one says so."""
    for call in (
        _objects(both.locks, "no/such"),
        _remove(both.locks, "no/such", oid_of(b"")),
        _restore(both.locks, "no/such", oid_of(b"")),
        _purge(both.locks, "no/such", oid_of(b"")),
        _copy(both.locks, "no/such", "no/such", oid_of(b"")),
        _usage(both.locks, "no/such"),
        both.locks.delete_repository("no/such", force=True),
    ):
        with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
            await call


async def test_an_empty_repository_is_removed(both: Both) -> None:
    """Grants go with it; the name is free, and the id is never used again."""
    name, repository_id = await both.add_repository()
    user = await both.locks.add_user(f"bob-{repository_id}")
    await both.locks.grant(f"bob-{repository_id}", name, admin.ROLE_ADMIN)
    removed = await both.locks.delete_repository(name)
    assert (removed.id, removed.name) == (repository_id, name)
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await both.locks.delete_repository(name)
    assert await both.locks.add_repository(name) > repository_id
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await both.locks.check(user, name, access.PERMISSION_READ)


async def test_a_repository_that_holds_something(both: Both) -> None:
    """It is removed by force only; then its objects and locks are gone, and a new one of its name sees none of them."""
    name, repository_id = await both.add_repository()
    alice = await both.locks.add_user(f"alice-{repository_id}")
    lock = await both.locks.create(repository_id, alice, "f1.dat")
    with refused(FailedPrecondition, Reason.REPOSITORY_NOT_EMPTY) as caught:
        await both.locks.delete_repository(name)
    assert "locks" in caught.value.message
    oid = await both.storage.write(repository_id, b"held by one")
    with refused(FailedPrecondition, Reason.REPOSITORY_NOT_EMPTY) as caught:
        await both.locks.delete_repository(name)
    assert "objects" in caught.value.message
    assert list((await both.locks.list(repository_id)).locks) == [lock]
    await both.locks.delete_repository(name, force=True)
    assert await both.storage.statuses(repository_id, oid) == [storage_pb.OBJECT_STATUS_MISSING]
    new_id = await both.locks.add_repository(name)
    assert await both.storage.statuses(new_id, oid) == [storage_pb.OBJECT_STATUS_MISSING]
    assert not (await both.locks.list(new_id)).locks
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await both.locks.create(repository_id, alice, "f2.dat")


async def _cut_off(service: RunningLocks, name: str) -> None:
    """Begin to remove a repository while the storage service is away, and give up."""
    request = admin.DeleteRepositoryRequest(name=name, force=True)
    with refused(DeadlineExceeded, Reason.DEADLINE_EXCEEDED):
        await service.admin_peer.call(service.admin.DeleteRepository, request, deadline=5)


async def test_a_removal_that_is_cut_off_can_be_finished(postgres: TestPostgres, tmp_path: Path) -> None:
    """The repository is out of reach at once; the same call again, or the next start, lets its objects go."""
    storage_url, locks_url = await postgres.create_database(), await postgres.create_database()
    storage_address = f"unix:{tmp_path}/storage.sock"
    limits = {"repository_bin_days": 0}
    async with running_locks(locks_url, tmp_path, storage_address=storage_address, limits=limits) as locks:
        ids = {name: await locks.add_repository(name) for name in ("again", "restart")}
        async with running_storage(storage_url, tmp_path) as storage:
            oids = {name: await storage.write(ids[name], name.encode()) for name in ids}
        for name in ids:
            await _cut_off(locks, name)
            with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
                await locks.check(1, name, access.PERMISSION_READ)
        async with running_storage(storage_url, tmp_path) as storage:
            assert await storage.statuses(ids["again"], oids["again"]) == [storage_pb.OBJECT_STATUS_PRESENT]
            assert (await locks.delete_repository("again", force=True)).id == ids["again"]
            assert await storage.statuses(ids["again"], oids["again"]) == [storage_pb.OBJECT_STATUS_MISSING]
            with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
                await locks.delete_repository("again", force=True)
            async with serving_locks(locks_url, tmp_path, storage_address=storage_address, name="restarted"):
                await until_answer([(0,)], lambda: locks.execute("SELECT count(*) FROM removed_repositories"))
            assert await storage.statuses(ids["restart"], oids["restart"]) == [storage_pb.OBJECT_STATUS_MISSING]
            with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
                await locks.delete_repository("restart", force=True)
