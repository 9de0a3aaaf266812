"""State of a service while Postgres cannot be written to, and its recovery as soon as it can."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import Reason, ResourceExhausted, ServiceError, Unavailable
from services.database.engine import create_engine
from services.database.statement import Statement
from services.database.transactions import Database
from services.database.url import DatabaseUrl
from tests.support.health import NOT_SERVING, health, wait_serving
from tests.support.locks import RunningLocks, refused, running_locks
from tests.support.postgres import TestPostgres
from tests.support.waiting import until_answer

_SET = "ALTER DATABASE {} SET default_transaction_read_only = on"
_RESET = "ALTER DATABASE {} RESET default_transaction_read_only"
_TERMINATE = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{}'"


@pytest.fixture
async def service(database_url: SecretStr, tmp_path: Path) -> AsyncIterator[RunningLocks]:
    """A lock service on a database of its own."""
    async with running_locks(database_url, tmp_path) as running:
        yield running


async def _until_not_serving(service: RunningLocks) -> None:
    async with grpc.aio.insecure_channel(service.address) as channel:
        await until_answer(NOT_SERVING, lambda: health(channel))


async def _until_serving(service: RunningLocks) -> None:
    async with grpc.aio.insecure_channel(service.address) as channel:
        await wait_serving(channel)


async def test_a_service_is_ready_only_where_it_can_write(service: RunningLocks, postgres: TestPostgres) -> None:
    """While its sessions are read-only it says that it is not, and connections from then keep nobody from writing."""
    user = await service.add_user("alice")
    repository = await service.add_repository("studio/film")
    await service.grant("alice", "studio/film", admin.ROLE_WRITE)
    await postgres.execute(_SET.format(service.database))
    await postgres.execute(_TERMINATE.format(service.database))
    await _until_not_serving(service)
    # Several connections at once, which stay in the pool.
    await asyncio.gather(*(service.list(repository, path=f"{number}") for number in range(20)))
    await postgres.execute(_RESET.format(service.database))
    await asyncio.gather(*(service.create(repository, user, f"{number}") for number in range(20)))
    await _until_serving(service)


@pytest.mark.parametrize("by_driver", [True, False])
async def test_a_session_that_stays_read_only_ends(
    database_url: SecretStr, postgres: TestPostgres, by_driver: bool
) -> None:
    """One thing that it refuses to write is enough, and is repeated on a new connection."""
    name = DatabaseUrl.parse(database_url).database
    await postgres.execute("CREATE ROLE towpath_public NOLOGIN")
    await postgres.execute("CREATE TABLE written (number int); GRANT ALL ON written TO public", database=name or "")
    database = Database(create_engine(database_url, schema="public", pool_size=4))
    insert = "INSERT INTO written VALUES (1) RETURNING number"

    async def write(connection: AsyncConnection) -> None:
        await connection.execute(text(insert))

    try:
        await postgres.execute(_SET.format(name))
        async with AsyncExitStack() as stack:
            for _ in range(4):
                connection = await stack.enter_async_context(database.engine.connect())
                assert await connection.scalar(text("SHOW transaction_read_only")) == "on"
        await postgres.execute(_RESET.format(name))
        for _ in range(4):
            await (database.fetch(Statement(insert, ())) if by_driver else database.run(write))
        assert await postgres.execute("SELECT count(*) FROM written", database=name or "") == "4"
    finally:
        await database.close()
        await postgres.execute("REVOKE ALL ON written FROM public; DROP ROLE towpath_public", database=name or "")


async def test_the_url_says_which_servers_are_wanted(database_url: SecretStr, postgres: TestPostgres) -> None:
    """With `target_session_attrs=read-write` a read-only server counts as one that does not answer."""
    name = DatabaseUrl.parse(database_url).database
    url = SecretStr(f"{database_url.get_secret_value()}&target_session_attrs=read-write")
    await postgres.execute("CREATE ROLE towpath_postgres_wanted NOLOGIN")
    database = Database(create_engine(url, schema="postgres_wanted", pool_size=1))
    try:
        assert [tuple(row) for row in await database.fetch(Statement("SELECT 1", ()))] == [(1,)]
        await postgres.execute(_SET.format(name))
        await postgres.execute(_TERMINATE.format(name))
        with pytest.raises(Unavailable):
            await database.fetch(Statement("SELECT 1", ()), patient=False)
        with pytest.raises(Unavailable):
            await database.fetch(Statement("SELECT 1", ()), patient=False)
    finally:
        await database.close()
        await postgres.execute("DROP ROLE towpath_postgres_wanted")


@pytest.mark.parametrize(
    ("sqlstate", "kind", "reason"),
    [
        ("53100", ResourceExhausted, Reason.STORAGE_FULL),
        ("53000", Unavailable, Reason.UNAVAILABLE),
        ("58030", Unavailable, Reason.UNAVAILABLE),
        ("42501", Unavailable, Reason.UNAVAILABLE),
    ],
)
async def test_a_database_that_lacks_something(
    service: RunningLocks, postgres: TestPostgres, sqlstate: str, kind: type[ServiceError], reason: Reason
) -> None:
    """No room, no files left to open, failing input and output, a read-only disk: told as that, and not ready."""
    user = await service.add_user("alice")
    repository = await service.add_repository("studio/film")
    await postgres.execute(
        "CREATE FUNCTION locks.refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '{sqlstate}'; END$$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON locks.locks EXECUTE FUNCTION locks.refuse()",
        database=service.database,
    )
    with refused(kind, reason):
        await service.create(repository, user, "f1.dat")
    await _until_not_serving(service)
    await postgres.execute("DROP TRIGGER refuse ON locks.locks", database=service.database)
    await service.create(repository, user, "f1.dat")
    await _until_serving(service)
