"""Indexes of tables with many rows are built while services write to the tables."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from pydantic import SecretStr

from services.database.migrations import create_operator_engine, migrate, upgrade
from services.storage.index.schema import SCHEMA
from tests.support.waiting import STEP_SECONDS, until

pytestmark = pytest.mark.empty_database

BUILT = """
    SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE indrelid = 'storage.objects'::regclass AND indisvalid
        AND relname ~ '^objects_(held_size|held_created_at|removed_size|bin_oid|bin_removed_at)$'
"""
ALL = "objects_bin_oid objects_bin_removed_at objects_held_created_at objects_held_size objects_removed_size"
BUILDING = "SELECT count(*) FROM pg_stat_progress_create_index WHERE datname = current_database()"
ADD = "INSERT INTO storage.objects (repository_id, oid, size) VALUES (2, $1, 1)"
ADD_MANY = """
    INSERT INTO storage.objects (repository_id, oid, size)
    SELECT 1, lpad(to_hex(number), 64, '0'), number FROM generate_series(1, $1) AS number
"""


@pytest.fixture
async def connection(database_url: SecretStr) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database with the tables of the version before the indexes."""
    engine = create_operator_engine(database_url, "test")
    async with engine.begin() as upgraded:
        await upgrade(upgraded, SCHEMA, "0011")
    await engine.dispose()
    connected = await asyncpg.connect(database_url.get_secret_value(), timeout=STEP_SECONDS)
    yield connected
    await connected.close()


async def test_uploads_go_on_while_an_index_is_built(database_url: SecretStr, connection: asyncpg.Connection) -> None:
    """An upload that is in progress holds the index up, and the index holds no upload up."""
    await connection.execute(ADD_MANY, 10_001)
    other = await asyncpg.connect(database_url.get_secret_value(), timeout=STEP_SECONDS)
    upload = connection.transaction()
    await upload.start()
    await connection.execute(ADD, "a" * 64)
    migration = asyncio.create_task(migrate(database_url, SCHEMA))
    await until(lambda: other.fetchval(BUILDING))
    await other.execute(ADD, "b" * 64, timeout=STEP_SECONDS)
    assert await other.fetchval(BUILT) is None
    assert not migration.done()
    await upload.commit()
    assert await asyncio.wait_for(migration, STEP_SECONDS) is None
    assert await other.fetchval(BUILT) == ALL
    await other.close()


async def test_few_objects_have_the_indexes_at_once(database_url: SecretStr, connection: asyncpg.Connection) -> None:
    """The migration itself builds them then, and so it does in a restore, however many objects there are."""
    engine = create_operator_engine(database_url, "test")
    for count, restoring, built in ((10_001, "false", None), (10_001, "true", ALL), (10_000, "false", ALL)):
        await connection.execute(ADD_MANY, count)
        async with engine.connect() as upgraded:
            await upgraded.exec_driver_sql(f"SET LOCAL towpath.restoring = '{restoring}'")
            await upgrade(upgraded, SCHEMA)
            found = await upgraded.exec_driver_sql(BUILT)
            assert found.scalar() == built
        await connection.execute("DELETE FROM storage.objects")
    await engine.dispose()


async def test_an_index_that_was_cut_off_is_built_anew(database_url: SecretStr, connection: asyncpg.Connection) -> None:
    """It is there and not valid, such as after a crash; the next migration replaces it."""
    await migrate(database_url, SCHEMA)
    named = "'storage.objects_held_size'::regclass"
    before = await connection.fetchval(f"SELECT {named}::oid")
    await connection.execute(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = {named}")  # noqa: S608 - our own
    await migrate(database_url, SCHEMA)
    assert await connection.fetchval(f"SELECT {named}::oid") != before
    assert await connection.fetchval(BUILT) == ALL


async def test_an_index_that_cannot_be_built_is_told(database_url: SecretStr, connection: asyncpg.Connection) -> None:
    """The tables are migrated all the same, and the note names the index."""
    await migrate(database_url, SCHEMA)
    await connection.execute("DROP INDEX storage.objects_held_size")
    await connection.execute(
        "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'not today'; END $$"
    )
    await connection.execute(
        "CREATE EVENT TRIGGER refusing ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION refuse()"
    )
    note = await migrate(database_url, SCHEMA)
    assert note is not None
    assert "objects_held_size" in note
    assert "not today" in note
    await connection.execute("DROP EVENT TRIGGER refusing")
    assert await migrate(database_url, SCHEMA) is None
    assert await connection.fetchval(BUILT) == ALL


async def test_one_call_builds_at_a_time(database_url: SecretStr, connection: asyncpg.Connection) -> None:
    """Another one leaves it alone, and does not wait."""
    await migrate(database_url, SCHEMA)
    await connection.execute("DROP INDEX storage.objects_held_size")
    key = "hashtextextended('towpath-build-indexes', 0)"
    await connection.execute(f"SELECT pg_advisory_lock({key})")
    assert await migrate(database_url, SCHEMA) is None
    assert await connection.fetchval(BUILT) != ALL
    await connection.execute(f"SELECT pg_advisory_unlock({key})")
    await migrate(database_url, SCHEMA)
    assert await connection.fetchval(BUILT) == ALL
