"""CreateLock (protocol: "Create lock")."""

import random
import time
import uuid

import pytest
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, Reason
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused


async def test_a_lock(service: RunningLocks, team: Team) -> None:
    """The created lock has an id fit for a URL, the path as asked, the time in whole seconds, and its owner's name."""
    before = int(time.time())
    lock = await service.create(team.repository_id, team.alice, "scenes/1.blend")
    assert lock.id.isdigit()
    assert lock.path == "scenes/1.blend"
    assert (lock.owner_id, lock.owner_name) == (team.alice, team.alice_name)
    assert before <= lock.locked_at.seconds <= int(time.time()) + 1
    assert lock.locked_at.nanos == 0


@pytest.mark.parametrize("other", ["alice", "bob"])
async def test_a_locked_path_stays_with_its_holder(service: RunningLocks, team: Team, other: str) -> None:
    """A conflict carries the lock with its holder's name, even for the holder, so that users can ask (trap-17)."""
    standing = await service.create(team.repository_id, team.alice, "f1.dat")
    with refused(AlreadyExists, Reason.PATH_LOCKED) as caught:
        await service.create(team.repository_id, getattr(team, other), "f1.dat")
    assert caught.value.detail == standing
    assert team.alice_name in caught.value.message
    assert list((await service.list(team.repository_id)).locks) == [standing]


async def test_repeated_with_its_key(service: RunningLocks, team: Team) -> None:
    """The same key and user get the lock that the first call made; another key or user gets the conflict."""
    key = uuid.uuid4().hex
    lock = await service.create(team.repository_id, team.alice, "f1.dat", key=key)
    assert await service.create(team.repository_id, team.alice, "f1.dat", key=key) == lock
    for user, other_key in ((team.alice, uuid.uuid4().hex), (team.alice, ""), (team.bob, key)):
        with refused(AlreadyExists, Reason.PATH_LOCKED):
            await service.create(team.repository_id, user, "f1.dat", key=other_key)


async def test_locked_again_after_its_removal(service: RunningLocks, team: Team) -> None:
    """A new lock of the path has a new id."""
    first = await service.create(team.repository_id, team.alice, "f1.dat")
    await service.delete(team.repository_id, team.alice, first.id)
    second = await service.create(team.repository_id, team.bob, "f1.dat")
    assert int(second.id) > int(first.id)
    assert second.owner_name == team.bob_name


async def test_one_path_in_two_repositories(service: RunningLocks, team: Team) -> None:
    """The same path in two repositories is two locks, so that no project blocks another (trap-19)."""
    others = await service.add_repository(f"other/{team.repository}")
    mine = await service.create(team.repository_id, team.alice, "f1.dat")
    theirs = await service.create(others, team.bob, "f1.dat")
    assert list((await service.list(team.repository_id)).locks) == [mine]
    assert list((await service.list(others)).locks) == [theirs]


@pytest.mark.parametrize("path", ["", "/f", "a//b", "../f", "a/./b", "a/", "a\0b", "a" * 4097])
async def test_malformed_paths(service: RunningLocks, team: Team, path: str) -> None:
    """A malformed path is refused, and nothing is locked."""
    with refused(InvalidArgument, Reason.INVALID_PATH):
        await service.create(team.repository_id, team.alice, path)
    assert not (await service.list(team.repository_id)).locks


async def test_unknown_parties(service: RunningLocks, team: Team) -> None:
    """A user or a repository that does not exist is not found."""
    with refused(NotFound, Reason.USER_NOT_FOUND):
        await service.create(team.repository_id, 2**62, "f1.dat")
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.create(2**62, team.alice, "f1.dat")


@pytest.mark.parametrize("key", ["k" * 65, "a\0b"])
async def test_malformed_keys(service: RunningLocks, team: Team, key: str) -> None:
    """A key is at most 64 characters, without NUL."""
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await service.create(team.repository_id, team.alice, "f1.dat", key=key)


async def test_strange_paths_round_trip(service: RunningLocks, team: Team) -> None:
    """Paths are compared and returned byte for byte: no folding, no normalisation."""
    paths = ["e\u0301", "\u00e9", "F", "f", "a b", "a+b&c=d?e#f", "%20", 'q"uo\\te', "new\nline", "\ufffd", "'; --"]
    for path in paths:
        await service.create(team.repository_id, team.alice, path)
    assert [lock.path for lock in (await service.list(team.repository_id)).locks] == paths
    for path in paths:
        assert [lock.path for lock in (await service.list(team.repository_id, path=path)).locks] == [path]


async def test_the_longest_path(service: RunningLocks, team: Team) -> None:
    """4,096 bytes that no index of Postgres could hold can be locked, found, and shown in a conflict."""
    path = "".join(random.Random(1).choices([chr(code) for code in range(0x4E00, 0x9FFF)], k=1365)) + "x"  # noqa: S311 - no secret
    assert len(path.encode()) == 4096
    lock = await service.create(team.repository_id, team.alice, path)
    assert lock.path == path
    with refused(AlreadyExists, Reason.PATH_LOCKED) as caught:
        await service.create(team.repository_id, team.bob, path)
    assert caught.value.detail == lock
    assert list((await service.list(team.repository_id, path=path)).locks) == [lock]
    assert await service.delete(team.repository_id, team.alice, lock.id) == lock


async def test_paths_that_begin_alike(service: RunningLocks, team: Team) -> None:
    """Two long paths that differ in their last byte are two."""
    locks = [await service.create(team.repository_id, team.alice, "a" * 4095 + end) for end in "xy"]
    assert isinstance(locks[0], pb.Lock)
    assert locks[0].id != locks[1].id
