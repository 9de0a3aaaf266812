"""The migrations of the storage service."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from pydantic import SecretStr
from sqlalchemy import Connection

from services.database.migrations import create_operator_engine, migrate
from services.storage.index.models import SCHEMA_NAME
from services.storage.index.schema import SCHEMA


def _differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(
        connection,
        opts={
            "include_schemas": True,
            "include_name": lambda name, kind, _parents: kind != "schema" or name == SCHEMA_NAME,
            "version_table_schema": SCHEMA_NAME,
            "compare_type": True,
            "compare_server_default": True,
        },
    )
    return list(compare_metadata(context, SCHEMA.metadata))


@pytest.mark.empty_database
async def test_migrated_tables_equal_the_models(database_url: SecretStr) -> None:
    """Migrations must make the tables of the models, and a second run must change nothing."""
    await migrate(database_url, SCHEMA)
    await migrate(database_url, SCHEMA)
    engine = create_operator_engine(database_url, "test")
    try:
        async with engine.connect() as connection:
            assert await connection.run_sync(_differences) == []
    finally:
        await engine.dispose()
