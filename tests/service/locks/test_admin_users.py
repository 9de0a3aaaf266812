"""AdminService: users."""

import asyncio

import pytest
from pydantic import SecretStr
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Reason, ServiceError
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused, running_locks
from tests.support.postgres import TestPostgres


async def _names(service: RunningLocks) -> list[str]:
    response = await service.admin_peer.call(service.admin.ListUsers, admin.ListUsersRequest())
    return [user.name for user in response.users]


async def test_users(service: RunningLocks) -> None:
    """A user is added, listed by name, byte for byte, and removed."""
    before = await _names(service)
    for name in ("b@example.com", "C@example.com", "_a"):
        await service.add_user(name)
    assert await _names(service) == sorted([*before, "C@example.com", "_a", "b@example.com"])
    with refused(AlreadyExists, Reason.USER_EXISTS):
        await service.add_user("_a")
    removed = await service.delete_user("_a")
    assert (removed.name, removed.administrator) == ("_a", False)
    assert removed.HasField("created_at")
    with refused(NotFound, Reason.USER_NOT_FOUND):
        await service.delete_user("_a")
    assert await service.add_user("_a") > removed.id


async def test_pages_of_users(service: RunningLocks) -> None:
    """Each user is in one page, by name, also when one whose name ends a page is removed meanwhile."""
    for number in range(5):
        await service.add_user(f"paged-{number}")
    request = admin.ListUsersRequest(limit=2, cursor="paged-")
    found = []
    for _ in range(2):
        page = await service.admin_peer.call(service.admin.ListUsers, request)
        found += [user.name for user in page.users]
        request.cursor = page.next_cursor
        await service.delete_user(page.next_cursor)
    request.limit = 1_000
    last = await service.admin_peer.call(service.admin.ListUsers, request)
    assert last.next_cursor == ""
    found += [user.name for user in last.users]
    assert found[:5] == [f"paged-{number}" for number in range(5)]
    assert found == sorted(set(found))
    with refused(InvalidArgument, Reason.INVALID_CURSOR):
        await service.admin_peer.call(service.admin.ListUsers, admin.ListUsersRequest(cursor="a b"))


async def test_one_user_by_name(service: RunningLocks) -> None:
    """Whatever page is asked for; the case of the name counts."""
    for name in ("only-1", "only-2"):
        await service.add_user(name, administrator=name == "only-1")
    request = admin.ListUsersRequest(name="only-1", limit=1, cursor="only-2")
    found = await service.admin_peer.call(service.admin.ListUsers, request)
    assert [(user.name, user.administrator) for user in found.users] == [("only-1", True)]
    assert found.next_cursor == ""
    with refused(NotFound, Reason.USER_NOT_FOUND):
        await service.admin_peer.call(service.admin.ListUsers, admin.ListUsersRequest(name="Only-1"))
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await service.admin_peer.call(service.admin.ListUsers, admin.ListUsersRequest(name="a b"))


@pytest.mark.parametrize("name", ["", "a b", "a\0b", "é", "x" * 65])
async def test_malformed_names(service: RunningLocks, name: str) -> None:
    """The message names the field."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, "name: "):
        await service.add_user(name)
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await service.delete_user(name)


async def test_look_alikes_are_refused(service: RunningLocks) -> None:
    """Whoever grants access to one of two people who are called alike soon grants it to the wrong one."""
    await service.add_user("Look.Alike")
    with refused(AlreadyExists, Reason.USER_EXISTS) as caught:
        await service.add_user("look.alike")
    assert "Look.Alike" in caught.value.message
    with refused(NotFound, Reason.USER_NOT_FOUND):
        await service.delete_user("look.alike")
    await service.delete_user("Look.Alike")
    await service.add_user("look.alike")


async def test_of_look_alikes_at_once_one_is_made(service: RunningLocks) -> None:
    """No index keeps them apart, so that those who come at once have to wait for each other."""
    names = [f"{first}{second}{third}" for first in "oO" for second in "nN" for third in "eE"]
    made = await asyncio.gather(*map(service.add_user, names), return_exceptions=True)
    assert sum(isinstance(each, int) for each in made) == 1
    assert sum(isinstance(each, AlreadyExists) for each in made) == len(names) - 1
    assert len({"one"} & {name.lower() for name in await _names(service)}) == 1


async def test_look_alikes_of_before_stay(service: RunningLocks) -> None:
    """Names that older versions allowed are found and removed as ever, each by its exact name."""
    older = "INSERT INTO users (name, administrator) VALUES ('older', false), ('Older', false), ('-older', false)"
    await service.execute(older)
    with refused(AlreadyExists, Reason.USER_EXISTS):
        await service.add_user("OLDER")
    for name in ("Older", "older", "-older"):
        assert (await service.delete_user(name)).name == name
    with refused(InvalidArgument, Reason.INVALID_FIELD, "name: "):
        await service.add_user("-older")


async def test_a_user_who_holds_locks(service: RunningLocks, team: Team) -> None:
    """The removal is refused, or releases the locks; trap-37: the history still tells who held them."""
    lock = await service.create(team.repository_id, team.alice, "f1.dat")
    other = await service.create(team.repository_id, team.bob, "f2.dat")
    with refused(FailedPrecondition, Reason.USER_HOLDS_LOCKS):
        await service.delete_user(team.alice_name)
    await service.delete_user(team.alice_name, release_locks=True)
    assert list((await service.list(team.repository_id)).locks) == [other]
    history = await service.released(team.repository)
    assert [(was.lock, was.released_by, was.forced) for was in history] == [(lock, "admin", True)]
    assert [grant.user_name for grant in await service.grants(team.repository)] == [team.bob_name]


async def test_the_last_administrator(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One stays, also when two remove each other at the same time."""
    async with running_locks(await postgres.create_database(), tmp_path_factory.mktemp("locks")) as service:
        with refused(FailedPrecondition, Reason.LAST_ADMINISTRATOR):
            await service.delete_user("admin")
        await service.add_user("ordinary")
        await service.add_user("second", administrator=True)
        tokens = SecretStr(service.admin_token), SecretStr(await service.add_token("second"))

        async def attempt(token: SecretStr, name: str) -> ServiceError | None:
            try:
                await service.peer.call(service.admin.DeleteUser, admin.DeleteUserRequest(name=name), secret=token)
            except ServiceError as error:
                return error
            return None

        outcomes = await asyncio.gather(attempt(tokens[0], "second"), attempt(tokens[1], "admin"))
        assert sum(outcome is None for outcome in outcomes) == 1
        assert await service.execute("SELECT count(*) FROM users WHERE administrator") == [(1,)]
