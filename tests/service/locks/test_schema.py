"""The migrations."""

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from pydantic import SecretStr
from sqlalchemy import Connection, text

from services.database.engine import create_engine
from services.database.migrations import migrate
from services.database.versions import newest_version, version_of
from services.locks.models import SCHEMA


def _differences(connection: Connection) -> object:
    return compare_metadata(MigrationContext.configure(connection), SCHEMA.metadata)


async def test_the_migrated_tables_are_the_models(database_url: SecretStr) -> None:
    """Nothing is left to migrate, and migrating again changes nothing."""
    await migrate(database_url, SCHEMA)
    await migrate(database_url, SCHEMA)
    engine = create_engine(database_url, schema=SCHEMA.name, pool_size=1)
    async with engine.connect() as connection:
        assert await connection.run_sync(_differences) == []
        assert await version_of(connection, SCHEMA.name) == newest_version(SCHEMA)
    await engine.dispose()


async def test_ids_and_names(database_url: SecretStr) -> None:
    """Ids are 64-bit identities; every text compares by its bytes, whatever the database's collation."""
    await migrate(database_url, SCHEMA)
    engine = create_engine(database_url, schema=SCHEMA.name, pool_size=1)
    columns = text(
        "SELECT column_name, data_type, collation_name FROM information_schema.columns"
        " WHERE table_schema = 'locks' AND table_name <> 'alembic_version'"
    )
    async with engine.connect() as connection:
        found = (await connection.execute(columns)).all()
    await engine.dispose()
    assert {kind for name, kind, _ in found if name == "id" or name.endswith("_id")} == {"bigint"}
    assert {collation for _, kind, collation in found if kind == "text"} == {"C"}
