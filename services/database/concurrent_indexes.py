"""Indexes of tables with many rows, built while services write to these tables.

An index with `postgresql_concurrently=True` in a schema's metadata is one of them: its migration leaves it out where
its table has many rows, because building it in the migration's transaction would hold up every write. No service
needs such an index, and without it some statements take longer.
"""

from sqlalchemy import Index, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.schema import CreateIndex

from services.common.observability.logs import get_logger
from services.database.engine import role_of
from services.database.versions import Schema

# Less than the deadline of a statement at the driver, so that Postgres tells what took so long.
_BUILD_SECONDS = 590

_KEY = "hashtextextended('towpath-build-indexes', 0)"
_IS_VALID = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")

_log = get_logger(__name__)


async def build_indexes(engine: AsyncEngine, schema: Schema) -> str | None:
    """Build those indexes of a schema that are missing, one after the other; return a note on one that failed.

    An index whose building was cut off is built anew. A call that finds another one at work leaves it alone. The
    caller disposes of the engine, which ends the session that has the lock and the role.
    """
    indexes = _concurrent_indexes(schema)
    if not indexes:
        return None
    async with engine.connect() as connected:
        connection = await connected.execution_options(isolation_level="AUTOCOMMIT")
        # Without waiting, because an index is valid only once all older statements have ended, those that wait too.
        if not await connection.scalar(text(f"SELECT pg_try_advisory_lock({_KEY})")):
            return None
        await connection.execute(text(f"SET statement_timeout = '{_BUILD_SECONDS}s'"))
        await connection.execute(text(f'SET ROLE "{role_of(schema.name)}"'))
        for index in indexes:
            try:
                await _build(connection, schema, index)
            except DBAPIError as error:
                return f"the index {index.name} is not built, run `towpath migrate` again: {error.orig}"
    return None


def _concurrent_indexes(schema: Schema) -> list[Index]:
    return [
        index
        for table in schema.metadata.sorted_tables
        for index in sorted(table.indexes, key=_name_of)
        if index.dialect_options["postgresql"]["concurrently"]
    ]


def _name_of(index: Index) -> str:
    return str(index.name)


async def _build(connection: AsyncConnection, schema: Schema, index: Index) -> None:
    name = f'"{schema.name}"."{index.name}"'
    is_valid = await connection.scalar(_IS_VALID, {"name": name})
    if is_valid:
        return
    if is_valid is not None:
        await connection.execute(text(f"DROP INDEX CONCURRENTLY {name}"))
    _log.info("an index is being built, while services go on", index=index.name)
    await connection.execute(CreateIndex(index))
