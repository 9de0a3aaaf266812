"""The database part of a restore: one transaction loads the old tables and migrates them to the newest version."""

from collections.abc import AsyncIterator
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.backup import database
from services.backup.database import COPY_SECONDS, SCHEMAS, Relation, acting_for, driver_of
from services.backup.errors import BackupError
from services.backup.manifest import Manifest
from services.backup.object_list import read_list
from services.backup.parallel import batches
from services.common.concurrency.files import pieces_of
from services.database.migrations import MIGRATION_KEY, mark_restoring, upgrade
from services.database.versions import RESTORING, version_of
from services.locks.models import SCHEMA as LOCKS
from services.storage.index.models import SCHEMA_NAME as STORAGE

ID_GAP = 1_000_000
"""The number of ids that a restore skips, because ids assigned after the backup must not be assigned again."""

# Only bigint sequences skip ids: the ids of stores are few, and nothing outside the database knows them.
_SET_SEQUENCE = text(
    "SELECT setval(seqrelid, CAST(:value AS bigint)"
    "  + CASE seqtypid WHEN CAST('bigint' AS regtype) THEN CAST(:gap AS bigint) ELSE 0 END)"
    " FROM pg_sequence WHERE seqrelid = CAST(:name AS regclass)"
)
# The changes of locks are counted anew. They begin where no earlier count can have been, because clients know the
# generations that were there before.
_NEW_GENERATIONS = text(
    "INSERT INTO locks.locks_per_repository AS counted (repository_id, stripe, count, changes)"
    " SELECT id, 0, 0, extract(epoch FROM clock_timestamp())::bigint FROM locks.repositories"
    " ON CONFLICT (repository_id, stripe) DO UPDATE SET changes = counted.changes + excluded.changes"
)
# The triggers record events of the locks that a restore loads, which nobody is to be told of.
_NO_EVENTS = ("DELETE FROM locks.hook_deliveries", "DELETE FROM locks.lock_events")
# The audit log has the rows of the backup, and none for the rows that a restore loads.
_UNAUDITED = text("SELECT set_config('towpath.restoring', 'true', true)")
_FILLED = {Relation("storage", "stores"): "WHERE id <> 1"}
"""The condition for the rows of a table that no migration inserts; in other tables, that is every row."""

_LISTED = 'CREATE TABLE storage.listed (oid varchar(64) COLLATE "C" PRIMARY KEY, name varchar(81) COLLATE "C" NOT NULL)'
# The one store is that of the settings, with the row that the migration inserts into the table of stores.
_MERGE = (
    # Pending blobs, and blobs to be deleted, are in the former stores. The rows of the primary stay, because the one
    # store may be the same place and have these blobs.
    "DELETE FROM storage.uploads WHERE store_id NOT IN (SELECT id FROM storage.stores WHERE is_primary)",
    "UPDATE storage.uploads SET store_id = 1 WHERE store_id <> 1",
    "DELETE FROM storage.discards WHERE store_id NOT IN (SELECT id FROM storage.stores WHERE is_primary)",
    "UPDATE storage.discards SET store_id = 1 WHERE store_id <> 1",
    # The backup has the bytes under the listed names, and it verified the bytes when it copied them.
    "DELETE FROM storage.contents c"
    " WHERE NOT EXISTS (SELECT FROM storage.listed l WHERE l.oid = c.oid AND l.name = c.name)",
    "UPDATE storage.contents SET store_id = 1, is_doubted = false WHERE store_id <> 1 OR is_doubted",
    "DELETE FROM storage.copies",
    "DELETE FROM storage.stores",
    "INSERT INTO storage.stores (id, name, is_primary) VALUES (1, 'first', true)",
    "DROP TABLE storage.listed",
)


async def goes_on(engine: AsyncEngine) -> bool:
    """Return whether a restore into the database has begun and not ended."""
    async with engine.connect() as connection:
        return RESTORING in [await version_of(connection, name) for name in SCHEMAS]


async def begin_restore(engine: AsyncEngine) -> None:
    """Mark a database without rows as being restored, so that no service serves it until `load`.

    Raises `BackupError` if a table has rows.
    """
    async with engine.begin() as connection:
        await _lock(connection)
        await _drop_empty(connection)
        for schema in SCHEMAS.values():
            await mark_restoring(connection, schema)


async def _lock(connection: AsyncConnection) -> None:
    await connection.execute(text("SET LOCAL lock_timeout = '60s'"))
    await connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_KEY})"))


async def _drop_empty(connection: AsyncConnection) -> None:
    """Drop the schemas. Raises `BackupError` if one of their tables has rows."""
    full = []
    for table in await database.tables(connection):
        async with acting_for(connection, table.schema):
            await connection.execute(text(f"LOCK TABLE {table.quoted} IN ACCESS EXCLUSIVE MODE"))
            rows = f"{table.quoted} {_FILLED.get(table, '')}"
            query = f"SELECT EXISTS (SELECT FROM {rows})"  # noqa: S608 - names that Postgres gave, quoted
            if await connection.scalar(text(query)):
                full.append(f"{table.schema}.{table.name}")
    if full:
        raise BackupError(f"expected a database without rows; there are some in {', '.join(full)}")
    for name in SCHEMAS:
        present = await connection.scalar(text("SELECT 1 FROM pg_namespace WHERE nspname = :name"), {"name": name})
        if present:
            async with acting_for(connection, name):
                await connection.execute(text(f'DROP SCHEMA "{name}" CASCADE'))


async def load(engine: AsyncEngine, manifest: Manifest, index: Path) -> None:
    """Load the rows of a verified backup, atomically, into the database that `begin_restore` has prepared."""
    async with engine.begin() as connection:
        await _lock(connection)
        await connection.execute(_UNAUDITED)
        await _drop_empty(connection)
        for name, schema in SCHEMAS.items():
            await upgrade(connection, schema, manifest.revisions[name])
        await _fill(connection, manifest, index)
        for sequence in manifest.sequences:
            async with acting_for(connection, sequence.schema_name):
                name = Relation(sequence.schema_name, sequence.name).quoted
                parameters = {"name": name, "value": sequence.last_value, "gap": ID_GAP}
                await connection.execute(_SET_SEQUENCE, parameters)
        for schema in SCHEMAS.values():
            await upgrade(connection, schema)
        await _merge_stores(connection, index / "objects")
        async with acting_for(connection, LOCKS.name):
            await connection.execute(_NEW_GENERATIONS)
            for statement in _NO_EVENTS:
                await connection.execute(text(statement))


async def _fill(connection: AsyncConnection, manifest: Manifest, index: Path) -> None:
    present = await database.tables(connection)
    files = {Relation(table.schema_name, table.table): table for table in manifest.tables}
    if {table: set(columns) for table, columns in present.items()} != {
        table: set(file.columns) for table, file in files.items()
    }:
        raise BackupError("manifest.json: its tables and columns are not those of its revisions")
    order = await database.loading_order(connection)
    for table in reversed(order):
        # The rows that a migration inserted are in the backup too.
        async with acting_for(connection, table.schema):
            await connection.execute(text(f"DELETE FROM {table.quoted}"))  # noqa: S608 - names that Postgres gave, quoted
    for table in order:
        file = files[table]
        async with acting_for(connection, table.schema):
            status = await (await driver_of(connection)).copy_to_table(
                table.name,
                schema_name=table.schema,
                columns=file.columns,
                source=pieces_of(index / file.name),
                timeout=COPY_SECONDS,
            )
        if status != f"COPY {file.rows}":
            raise BackupError(f"{file.name}: Postgres took {status}, expected {file.rows} rows")


async def _merge_stores(connection: AsyncConnection, object_list: Path) -> None:
    """Merge the rows of all stores into one, because a restore writes all bytes to one store.

    That store has each object under its name in the list of the backup.
    """
    async with acting_for(connection, STORAGE):
        await connection.execute(text(_LISTED))
        driver = await driver_of(connection)
        await driver.copy_records_to_table(
            "listed", schema_name=STORAGE, columns=("oid", "name"), records=_names(object_list), timeout=COPY_SECONDS
        )
        for step in _MERGE:
            await connection.execute(text(step))


async def _names(object_list: Path) -> AsyncIterator[tuple[str, str]]:
    async for batch in batches(read_list(object_list)):
        for entry in batch:
            yield entry.oid, entry.name
