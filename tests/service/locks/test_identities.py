"""Users of forges: found by the subject of their identity, and named so that nobody becomes another user."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from services.database.engine import create_engine
from services.database.transactions import Database
from services.locks.access.identities import user_of
from services.locks.models import SCHEMA, Forge, User
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks


@pytest.fixture
async def database(service: RunningLocks) -> AsyncIterator[Database]:
    """The database of the service."""
    database = Database(create_engine(service.database_url, schema=SCHEMA.name, pool_size=4))
    yield database
    await database.close()


@pytest.fixture
async def forge_id(database: Database, team: Team) -> int:
    """A forge of its own for each test."""

    async def work(connection: AsyncConnection) -> int:
        values = {"name": f"forge-{team.repository_id}", "kind": "gitea", "api_url": "https://git.example.org"}
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
