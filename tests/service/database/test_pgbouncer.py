"""Sessions through PgBouncer: they keep what was set, and are refused where others get them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from services.database.engine import create_engine, driver_connection
from services.database.migrations import create_operator_engine, migrate
from services.database.sessions import SharedSessionsError
from services.database.url import DatabaseUrl
from services.locks.models import SCHEMA
from tests.support.pgbouncer import running_pgbouncer
from tests.support.postgres import TestPostgres
from tests.support.waiting import until

_OTHERS = 3
_STARTS = 10
_SESSION = """
    SELECT concat_ws(' ', current_user, current_setting('search_path'), current_setting('statement_timeout'),
    current_setting('idle_in_transaction_session_timeout'), current_setting('timezone'))
"""
_OF_LOCKS = "towpath_locks locks 10s 1min UTC"
_OF_OPERATOR = 'towpath "$user", public 0 0 UTC'
_PROCESS = text("SELECT pg_backend_pid()")
_PROCESSES = 3
# Other databases of the same Postgres have lock services of other tests.
_STATES = """
    SELECT string_agg(state, ' ') FROM pg_stat_activity
    WHERE application_name = 'towpath-locks' AND datname = current_database()
"""


@asynccontextmanager
async def pooled(postgres: TestPostgres, url: SecretStr, *lines: str, mode: str) -> AsyncIterator[SecretStr]:
    """Run a PgBouncer in a mode, with more settings, and give the URL of a database through it."""
    async with running_pgbouncer(postgres.postgres, *lines, mode=mode) as pgbouncer:
        yield pgbouncer.url(url)


@asynccontextmanager
async def others(url: SecretStr, *, stay: bool) -> AsyncIterator[None]:
    """Have other clients ask all the time, which stay connected or leave after each answer."""
    answered = 0

    async def ask() -> None:
        nonlocal answered
        while True:
            connection = await asyncpg.connect(url.get_secret_value())
            try:
                while True:
                    await connection.execute("SELECT 1")
                    answered += 1
                    if not stay:
                        break
            finally:
                connection.terminate()

    asking = [asyncio.create_task(ask()) for _ in range(_OTHERS)]
    try:
        await until(lambda: answered > _OTHERS)
        yield
    finally:
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)
    assert all(task.cancelled() for task in asking)


async def start(url: SecretStr) -> None:
    """Connect as a process does first; once."""
    engine = create_operator_engine(url, "test")
    try:
        async with engine.connect():
            pass
    finally:
        await engine.dispose()


async def test_parameters_are_those_of_the_session(postgres: TestPostgres, database_url: SecretStr) -> None:
    """Both kinds of connections have them, in no transaction; who gets the same process of Postgres next has none."""
    async with pooled(postgres, database_url, f"default_pool_size = {_PROCESSES}", mode="session") as url:
        await migrate(url, SCHEMA)
        engine = create_engine(url, schema="locks", pool_size=1)
        async with engine.connect() as connection:
            assert await connection.scalar(text(_SESSION)) == _OF_LOCKS
            process = await connection.scalar(_PROCESS)
        async with driver_connection(url, schema="locks") as driver:
            assert await postgres.execute_at(url, _STATES) == "idle idle"
            assert await driver.fetchval(_SESSION) == _OF_LOCKS
        await engine.dispose()
        operator = create_operator_engine(url, "test")
        connections = [await operator.connect() for _ in range(_PROCESSES)]
        assert process in [await connection.scalar(_PROCESS) for connection in connections]
        for connection in connections:
            assert await connection.scalar(text(_SESSION)) == _OF_OPERATOR
            await connection.close()
        await operator.dispose()


@pytest.mark.parametrize("stay", [True, False])
async def test_session_mode_is_not_refused(postgres: TestPostgres, database_url: SecretStr, *, stay: bool) -> None:
    """Whatever other clients do, also where another database of the same PgBouncer has another mode."""
    name = DatabaseUrl.parse(database_url).database
    databases = f"[databases]\n{name} = host={postgres.postgres.sockets} pool_mode=session"
    async with pooled(postgres, database_url, databases, mode="transaction") as url, others(url, stay=stay):
        for _ in range(_STARTS):
            await start(url)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("lines", [("default_pool_size = 1",), ("min_pool_size = 2", "server_round_robin = 1")])
async def test_other_modes_are_refused(
    postgres: TestPostgres, database_url: SecretStr, mode: str, lines: Sequence[str]
) -> None:
    """With the last process first or each in turn, alone and beside others; and for all who connect."""
    async with pooled(postgres, database_url, *lines, mode=mode) as url:
        for _ in range(_STARTS):
            with pytest.raises(SharedSessionsError, match="pool_mode = session"):
                await start(url)
        with pytest.raises(SharedSessionsError):
            await migrate(url, SCHEMA)
        async with others(url, stay=True):
            for _ in range(_STARTS):
                with pytest.raises(SharedSessionsError):
                    await start(url)
