"""CreateLock (protocol: "Create lock")."""

import random
import time
import uuid

import pytest

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


async def test_repeated_with_its_key(service: RunningLocks, team: Team) -> None:
    """The same key and user get the lock that the first call made; another key or user gets the conflict."""
    key = uuid.uuid4().hex
    lock = await service.create(team.repository_id, team.alice, "f1.dat", key=key)
    assert await service.create(team.repository_id, team.alice, "f1.dat", key=key) == lock
    for user, other_key in ((team.alice, uuid.uuid4().hex), (team.alice, ""), (team.bob, key)):
        with refused(AlreadyExists, Reason.PATH_LOCKED):
            await service.create(team.repository_id, user, "f1.dat", key=other_key)


async def test_unknown_parties(service: RunningLocks, team: Team) -> None:
    """A user or a repository that does not exist is not found."""
    with refused(NotFound, Reason.USER_NOT_FOUND):
        await service.create(team.repository_id, 2**62, "f1.dat")
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.create(2**62, team.alice, "f1.dat")


@pytest.mark.parametrize("key", ["k" * 65, "a\0b"])
async def test_malformed_keys(service: RunningLocks, team: Team, key: str) -> None:
    """A key is at most 64 characters, without NUL, for a creation and for a removal."""
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await service.create(team.repository_id, team.alice, "f2.dat", key=key)
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await service.delete(team.repository_id, team.alice, lock.id, key=key)


async def test_the_longest_path(service: RunningLocks, team: Team) -> None:
    """4,096 bytes that no index of Postgres could hold can be locked, found, and shown in a conflict."""
    path = "".join(random.Random(1).choices([chr(code) for code in range(0x4E00, 0x9FFF)], k=1365)) + "x"  # noqa: S311 - no secret
    assert len(path.encode()) == 4096
    lock = await service.create(team.repository_id, team.alice, path)
    assert lock.path == path
    with refused(AlreadyExists, Reason.PATH_LOCKED) as caught:
        await service.create(team.repository_id, team.bob, path)
    assert caught.value.detail == lock
    assert team.alice_name in caught.value.message
    assert list((await service.list(team.repository_id, path=path)).locks) == [lock]
    assert await service.delete(team.repository_id, team.alice, lock.id) == lock
