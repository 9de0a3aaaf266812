"""Notes of locks, and reasons of their removal."""

from typing import Any

import pytest
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import AlreadyExists, InvalidArgument, Reason
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused

LONGEST = "\N{DRAGON}" * 500


async def test_the_note_of_many_locks(service: RunningLocks, team: Team) -> None:
    """The new locks have the note of the call, and a lock that stood before keeps its own."""
    before = await service.create(team.repository_id, team.alice, "a", note="first")
    request = pb.CreateLocksRequest(
        repository_id=team.repository_id, user_id=team.alice, paths=["a", "b"], note="second"
    )
    locks = (await service.peer.call(service.locks.CreateLocks, request)).locks
    assert [lock.note for lock in locks] == ["first", "second"]
    assert locks[0] == before
    admins = admin.LockPathsRequest(repository=team.repository, user_name=team.bob_name, paths=["c"], note="third")
    [locked] = (await service.admin_peer.call(service.admin.LockPaths, admins)).locks
    assert locked.note == "third"


async def test_the_longest_note_of_the_longest_path(service: RunningLocks, team: Team) -> None:
    """A conflict with the longest lock arrives, each time, though it is in the trailers."""
    path = "\N{DRAGON}" * 1024
    lock = await service.create(team.repository_id, team.alice, path, note=LONGEST)
    for _ in range(20):
        with refused(AlreadyExists, Reason.PATH_LOCKED) as caught:
            await service.create(team.repository_id, team.bob, path)
        assert caught.value.detail == lock


async def test_long_notes_shorten_pages(service: RunningLocks, team: Team) -> None:
    """Notes count as much as paths, so that no writer makes lists slow for all, and no lock is lost between pages."""
    paths = [f"f{number:04}" for number in range(500)]
    request = pb.CreateLocksRequest(repository_id=team.repository_id, user_id=team.alice, paths=paths, note=LONGEST)
    await service.peer.call(service.locks.CreateLocks, request)
    # The second round measures in Postgres.
    for _ in range(2):
        found: list[str] = []
        cursor = ""
        while True:
            page = await service.list(team.repository_id, cursor=cursor, limit=1000)
            assert 0 < sum(len((lock.path + lock.note).encode()) for lock in page.locks) <= 256 * 1024
            found.extend(lock.path for lock in page.locks)
            cursor = page.next_cursor
            if not cursor:
                break
        assert found == paths


@pytest.mark.parametrize("text", ["x" * 501, "a\0b"])
async def test_texts_out_of_bounds(service: RunningLocks, team: Team, text: str) -> None:
    """A note or reason is at most 500 characters without NUL, wherever one may be given."""
    ours: dict[str, Any] = {"repository_id": team.repository_id, "user_id": team.alice}
    theirs: dict[str, Any] = {"repository": team.repository}
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    calls = [
        (service.peer, service.locks.CreateLock, pb.CreateLockRequest(**ours, path="a", note=text)),
        (service.peer, service.locks.CreateLocks, pb.CreateLocksRequest(**ours, paths=["a"], note=text)),
        (service.peer, service.locks.DeleteLock, pb.DeleteLockRequest(**ours, id=lock.id, reason=text)),
        (service.peer, service.locks.DeleteLocks, pb.DeleteLocksRequest(**ours, paths=["f1.dat"], reason=text)),
        (service.peer, service.locks.StealLock, pb.StealLockRequest(**ours, id=lock.id, reason="x", note=text)),
        (service.admin_peer, service.admin.LockPaths, admin.LockPathsRequest(**theirs, paths=["a"], note=text)),
        (service.admin_peer, service.admin.RemoveLock, admin.RemoveLockRequest(**theirs, id=lock.id, reason=text)),
        (
            service.admin_peer,
            service.admin.UnlockPaths,
            admin.UnlockPathsRequest(**theirs, paths=["f1.dat"], reason=text),
        ),
        (service.admin_peer, service.admin.StealLock, admin.StealLockRequest(**theirs, id=lock.id, reason=text)),
    ]
    for peer, call, request in calls:
        with refused(InvalidArgument, Reason.INVALID_FIELD) as caught:
            await peer.call(call, request)  # type: ignore[arg-type] # each request is that of its call
        assert caught.value.message == (
            f"{caught.value.message.partition(':')[0]}: expected at most 500 characters without NUL"
        )
    assert list((await service.list(team.repository_id)).locks) == [lock]
