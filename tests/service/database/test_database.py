"""Transactions that outlive a lost connection, and migrations that make role and schema."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest
from prometheus_client import REGISTRY
from pydantic import SecretStr
from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import Unavailable
from services.common.lifecycle import cancel_and_wait
from services.common.migration_versions import newest_version
from services.database import transactions
from services.database.engine import create_engine
from services.database.migrations import migrate
from services.database.statement import Statement
from services.database.transactions import Database
from services.database.url import DatabaseUrl
from services.database.versions import Schema, version_of
from tests.support.postgres import TestPostgres
from tests.support.waiting import STEP_SECONDS, until_answer

pytestmark = pytest.mark.empty_database

_FIRST = '''"""Make the first table."""

from alembic import op

revision = "0001"
down_revision = None


def upgrade():
    op.execute("CREATE TABLE goods (id bigint PRIMARY KEY)")
'''
_BROKEN = '''"""Fail half-way."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    op.execute("CREATE TABLE more_goods (id bigint PRIMARY KEY)")
    op.execute("SELECT 1 / 0")
'''


OpenDatabase = Callable[[int], Database]
_PAUSING = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'towpath-barge' AND wait_event = 'PgSleep'"


def _pid(*, pause: float = 0) -> Statement:
    return Statement("SELECT pg_backend_pid(), pg_sleep($1::double precision)", (pause,))


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    """A schema with one version."""
    (tmp_path / "0001_first.py").write_text(_FIRST)
    return Schema("barge", MetaData(), tmp_path)


@pytest.fixture
async def open_database(database_url: SecretStr, schema: Schema) -> AsyncIterator[OpenDatabase]:
    """Return a function that opens the database, with the schema, with so many connections."""
    await migrate(database_url, schema)
    async with AsyncExitStack() as stack:

        def opened(pool_size: int) -> Database:
            database = Database(create_engine(database_url, schema=schema.name, pool_size=pool_size))
            stack.push_async_callback(database.close)
            return database

        yield opened


async def test_migrate_makes_role_schema_and_tables(
    database_url: SecretStr, schema: Schema, open_database: OpenDatabase
) -> None:
    """The tables belong to the service's own role; migrating again changes nothing."""
    await migrate(database_url, schema)

    async def look(connection: AsyncConnection) -> tuple[str, str, bool]:
        role = await connection.scalar(text("SELECT current_user"))
        owner = await connection.scalar(text("SELECT tableowner FROM pg_tables WHERE tablename = 'goods'"))
        return str(role), str(owner), await version_of(connection, schema.name) == newest_version(schema.versions)

    assert await open_database(1).run(look) == ("towpath_barge", "towpath_barge", True)


async def test_a_failed_migration_leaves_the_version_as_it_was(
    database_url: SecretStr, schema: Schema, open_database: OpenDatabase
) -> None:
    """All or nothing: no table of a version that failed remains."""
    (schema.versions / "0002_broken.py").write_text(_BROKEN)
    with pytest.raises(Exception, match="division by zero"):
        await migrate(database_url, schema)

    async def look(connection: AsyncConnection) -> tuple[bool, object]:
        table = await connection.scalar(text("SELECT to_regclass('barge.more_goods')"))
        return await version_of(connection, schema.name) == newest_version(schema.versions), table

    assert await open_database(1).run(look) == (False, None)


async def test_a_postgres_that_starts_later_is_waited_for(
    postgres: TestPostgres, database_url: SecretStr, schema: Schema
) -> None:
    """A migration that finds no Postgres that answers tries again, until there is one."""
    tried = asyncio.Event()

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        tried.set()

    with tempfile.TemporaryDirectory(prefix="towpath-test-") as folder:
        name = ".s.PGSQL.5432"
        url = SecretStr(database_url.get_secret_value().replace(str(postgres.postgres.sockets), folder))
        server = await asyncio.start_unix_server(hang_up, Path(folder) / name)
        migration = asyncio.create_task(migrate(url, schema, wait_seconds=STEP_SECONDS))
        await tried.wait()
        server.close()
        (Path(folder) / name).unlink(missing_ok=True)
        (Path(folder) / name).symlink_to(postgres.postgres.sockets / name)
        await migration
    database = Database(create_engine(database_url, schema=schema.name, pool_size=1))
    async with database.engine.connect() as connection:
        assert await version_of(connection, schema.name) == "0001"
    await database.close()


async def test_a_postgres_that_never_comes_is_named(schema: Schema, tmp_path: Path) -> None:
    """The error says which database does not answer, without its password."""
    url = SecretStr(f"postgresql://u:hush@/goods?host={tmp_path}")
    with pytest.raises(Unavailable, match="goods") as caught:
        await migrate(url, schema)
    assert "hush" not in caught.value.message


async def test_a_lost_connection_is_not_seen(postgres: TestPostgres, open_database: OpenDatabase) -> None:
    """A transaction whose connection is cut, as by a restart, is run again."""
    runs = 0

    async def work(connection: AsyncConnection) -> int:
        nonlocal runs
        runs += 1
        pid = await connection.scalar(text("SELECT pg_backend_pid()"))
        if runs == 1:
            await postgres.execute(f"SELECT pg_terminate_backend({pid})")
        return int(await connection.scalar(text("SELECT 42")) or 0)

    assert await open_database(1).run(work) == 42
    assert runs == 2


async def test_a_single_statement_does_not_see_that_all_connections_are_lost(
    postgres: TestPostgres, open_database: OpenDatabase
) -> None:
    """It is asked again over a new one, whichever of the lost ones it met."""
    database = open_database(6)
    opened = await asyncio.gather(*(database.fetch(_pid(pause=0.2)) for _ in range(3)))
    lost = {pid for ((pid, _),) in opened}
    assert len(lost) == 3
    await postgres.execute(f"SELECT {', '.join(f'pg_terminate_backend({pid})' for pid in lost)}")
    answers = await asyncio.gather(*(database.fetch(_pid()) for _ in range(9)))
    assert lost.isdisjoint(pid for ((pid, _),) in answers)


async def _seven_by_driver(database: Database) -> int:
    [[seven]] = await database.fetch(Statement("SELECT $1::integer", (7,)))
    return int(seven)


async def _seven_in_a_transaction(database: Database) -> int:
    async def work(connection: AsyncConnection) -> int:
        return int(await connection.scalar(text("SELECT 7")) or 0)

    return await database.run(work)


@pytest.mark.parametrize("seven", [_seven_by_driver, _seven_in_a_transaction])
async def test_no_statement_fails_while_connections_are_lost(
    postgres: TestPostgres, open_database: OpenDatabase, seven: Callable[[Database], Awaitable[int]]
) -> None:
    """At whatever moment of a statement, or before it, its connection is cut."""
    database = open_database(4)
    is_over = asyncio.Event()

    async def ask() -> int:
        answered = 0
        while not is_over.is_set():
            assert await seven(database) == 7
            answered += 1
        return answered

    asking = [asyncio.create_task(ask()) for _ in range(8)]
    for _ in range(20):
        await postgres.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'towpath-barge'"
        )
    is_over.set()
    assert all(await asyncio.gather(*asking))


async def test_single_statements_and_transactions_have_half_of_the_connections_each(
    open_database: OpenDatabase, postgres: TestPostgres
) -> None:
    """However many statements wait, a transaction has a connection; those that are kept are told as idle."""
    database = open_database(4)
    slow = [asyncio.create_task(database.fetch(_pid(pause=3600))) for _ in range(20)]
    await until_answer("2", lambda: postgres.execute(_PAUSING))
    assert await asyncio.wait_for(_seven_in_a_transaction(database), STEP_SECONDS) == 7
    await cancel_and_wait(*slow)
    assert await asyncio.wait_for(_seven_by_driver(database), STEP_SECONDS) == 7
    assert REGISTRY.get_sample_value("towpath_database_connections", {"state": "in_use"}) == 0


@pytest.mark.parametrize("pool_size", [1, 2])
async def test_a_single_statement_that_fails_leaves_its_place_to_the_next(
    open_database: OpenDatabase, postgres: TestPostgres, pool_size: int
) -> None:
    """A statement that Postgres refuses, or whose caller gives up, leaves its place, and the former its connection."""
    database = open_database(pool_size)
    [[before, _]] = await database.fetch(_pid())
    with pytest.raises(asyncpg.DivisionByZeroError):
        await database.fetch(Statement("SELECT 1 / $1::integer", (0,)))
    [[after, _]] = await database.fetch(_pid())
    assert pool_size == 1 or after == before
    given_up = asyncio.create_task(database.fetch(_pid(pause=3600)))
    await until_answer("1", lambda: postgres.execute(_PAUSING))
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert len(await asyncio.wait_for(database.fetch(_pid()), STEP_SECONDS)) == 1


@pytest.mark.parametrize("pool_size", [1, 2])
async def test_the_end_closes_connections_in_use_too(
    open_database: OpenDatabase, postgres: TestPostgres, pool_size: int
) -> None:
    """A statement and a transaction that outlive the database leave no connection open."""
    database = open_database(pool_size)

    async def sleep(connection: AsyncConnection) -> None:
        await connection.execute(text("SELECT pg_sleep(3)"))

    late: list[asyncio.Task[object]] = [asyncio.create_task(database.fetch(_pid(pause=3), patient=False))]
    if pool_size > 1:
        late.append(asyncio.create_task(database.run(sleep, patient=False)))
    await until_answer(f"{pool_size}", lambda: postgres.execute(_PAUSING))
    await database.close()
    assert {type(ended) for ended in await asyncio.gather(*late, return_exceptions=True)} == {Unavailable}
    open_now = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'towpath-barge'"
    await until_answer("0", lambda: postgres.execute(open_now))


async def test_an_outage_ends_as_unavailable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A database that is not there is waited for, within the bound."""
    monkeypatch.setattr(transactions, "OUTAGE_SECONDS", 0.2)
    url = SecretStr(f"postgresql://nobody@/none?host={tmp_path}")
    database = Database(create_engine(url, schema="barge", pool_size=1))

    async def work(connection: AsyncConnection) -> None:
        await connection.execute(text("SELECT 1"))

    with pytest.raises(Unavailable, match="the database does not answer"):
        await database.run(work)
    with pytest.raises(Unavailable, match="the database does not answer"):
        await database.fetch(_pid())
    await database.close()


@pytest.mark.parametrize("url", ["mysql://user:hidden@host/db", "not a url with hidden"])
def test_a_wrong_url_is_refused_without_its_password(url: str) -> None:
    """The error says what was expected and repeats no secret."""
    with pytest.raises(ValueError, match="database url: expected postgresql://") as caught:
        DatabaseUrl.parse(SecretStr(url))
    assert "hidden" not in str(caught.value)
