"""Users of forges: found by the subject of their identity, and named so that nobody becomes another user."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr
from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, Reason
from services.database.engine import create_engine
from services.database.transactions import Database
from services.locks.access.bootstrap import bootstrap
from services.locks.access.identities import user_of
from services.locks.models import SCHEMA, Forge, User
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused


@pytest.fixture
async def database(service: RunningLocks) -> AsyncIterator[Database]:
    """The database of the service."""
    async with service.open_database(pool_size=4) as database:
        yield database


@pytest.fixture
async def forge_id(database: Database, team: Team) -> int:
    """A forge of its own for each test."""
    return await add_forge(database, f"forge-{team.repository_id}")


async def add_forge(database: Database, name: str) -> int:
    """Add a forge and return its id."""

    async def work(connection: AsyncConnection) -> int:
        values = {"name": name, "kind": "gitea", "api_url": "https://git.example.org"}
        added = await connection.execute(insert(Forge).values(**values).returning(Forge.__table__.c.id))
        return int(added.scalar_one())

    return await database.run(work)


async def find(database: Database, forge_id: int, subject: str, login: str) -> User:
    """Return the user of an identity."""

    async def work(connection: AsyncConnection) -> User:
        return await user_of(connection, subject=subject, login=login, provider="github", forge_id=forge_id)

    return await database.run(work)


async def test_a_subject_is_one_user_whatever_its_login(database: Database, forge_id: int, team: Team) -> None:
    """A renamed account stays the same user with the same name."""
    login = f"carol-{team.repository_id}"
    first = await find(database, forge_id, "17", login)
    assert (first.name, first.administrator) == (login, False)
    renamed = await find(database, forge_id, "17", "another-login")
    assert (renamed.id, renamed.name) == (first.id, login)
    assert (await find(database, forge_id, "18", login)).id != first.id


async def test_a_login_never_finds_a_user_of_that_name(database: Database, forge_id: int, team: Team) -> None:
    """Whoever has the login of a user here, in any case, becomes another user."""
    for number, login in enumerate((team.alice_name, team.alice_name.upper(), team.alice_name)):
        user = await find(database, forge_id, str(number), login)
        assert user.id != team.alice
        assert user.name.endswith("@github")


@pytest.mark.parametrize("login", ["dependabot[bot]", "-rf", "", "ü" * 300, "a" * 65, "nul\0byte", " "])
async def test_odd_logins(database: Database, forge_id: int, login: str) -> None:
    """Whatever a login is, its user has a name that commands accept."""
    names = {(await find(database, forge_id, f"{number} {login!r}"[:200], login)).name for number in range(3)}
    assert len(names) == 3
    for name in names:
        assert name.endswith("@github")
        assert len(name) <= 64
        assert not name.startswith("-")


async def test_first_requests_at_once(database: Database, forge_id: int) -> None:
    """Many first requests of one identity add one user."""
    found = await asyncio.gather(*(find(database, forge_id, "99", "dave") for _ in range(12)))
    assert len({user.id for user in found}) == 1


async def test_a_name_of_a_newcomer_s_choice_gets_no_grant_by_itself(
    service: RunningLocks, database: Database, forge_id: int, team: Team
) -> None:
    """A script that adds a user, or goes on where there is one, gives nothing to whoever has come with that name."""
    name, group = f"wanted-{team.repository_id}", f"group-{team.repository_id}"
    origin = f"forge forge-{team.repository_id}"
    attacker = await find(database, forge_id, "66", name)
    call, stub = service.admin_peer.call, service.admin
    with refused(AlreadyExists, Reason.USER_EXISTS) as taken:
        await service.add_user(name)
    assert origin in taken.value.message
    await service.add_group(group)
    for other in ("", "forge other"):
        with refused(InvalidArgument, Reason.INVALID_FIELD, f"origin: expected '{origin}'"):
            await service.grant(name, team.repository, admin.ROLE_WRITE, origin=other)
        with refused(InvalidArgument, Reason.INVALID_FIELD):
            await service.add_members(group, name, origin=other)
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.check(attacker.id, team.repository, access.PERMISSION_READ)
    [listed] = (await call(stub.ListUsers, admin.ListUsersRequest(name=name))).users
    assert listed.origin == origin
    await service.grant(name, team.repository, admin.ROLE_WRITE, origin=origin)
    await service.add_members(group, name, origin=origin)
    [member] = (await call(stub.ListGroupMembers, admin.ListGroupMembersRequest(group_name=group))).users
    assert (member.name, member.origin) == (name, origin)


async def test_who_was_added_here_has_no_origin(service: RunningLocks, team: Team) -> None:
    """A grant that names one means somebody else."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, "origin: expected none"):
        await service.grant(team.alice_name, team.repository, admin.ROLE_READ, origin="issuer sso")


async def test_nobody_comes_as_the_first_administrator(database_url: SecretStr) -> None:
    """The name is not given to newcomers, though it may be free; one of an earlier version gets no rights by it."""
    database = Database(create_engine(database_url, schema=SCHEMA.name, pool_size=1))

    async def rename(connection: AsyncConnection) -> None:
        await connection.execute(update(User).values(name="admin"))

    async def read(connection: AsyncConnection) -> bool:
        return bool(await connection.scalar(select(User.__table__.c.administrator)))

    try:
        found = await find(database, await add_forge(database, "github"), "66", "Admin")
        assert found.name == "Admin@github"
        await database.run(rename)
        with pytest.raises(ValueError, match="forge github"):
            await bootstrap(database)
        assert not await database.run(read)
    finally:
        await database.close()
