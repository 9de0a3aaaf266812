"""Making the rows of several stores those of one, which is where a restore puts all bytes."""

from collections.abc import AsyncIterator
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.backup.database import COPY_SECONDS, acting_for, driver_of
from services.backup.object_list import read_list
from services.backup.parallel import batches
from services.storage.index.models import SCHEMA_NAME as STORAGE

_LISTED = 'CREATE TABLE storage.listed (oid varchar(64) COLLATE "C" PRIMARY KEY, name varchar(81) COLLATE "C" NOT NULL)'
# The one store is that of the settings, as the migration that makes the table of stores has it.
_STEPS = (
    # Bytes on their way, and such as were to be removed, lie in the stores that were; those of the primary stand for
    # what the one store may have, where it is the same.
    "DELETE FROM storage.uploads WHERE store_id NOT IN (SELECT id FROM storage.stores WHERE is_primary)",
    "UPDATE storage.uploads SET store_id = 1 WHERE store_id <> 1",
    "DELETE FROM storage.discards WHERE store_id NOT IN (SELECT id FROM storage.stores WHERE is_primary)",
    "UPDATE storage.discards SET store_id = 1 WHERE store_id <> 1",
    # The backup has the bytes under the listed names, and those that it has were right when it copied them.
    "DELETE FROM storage.contents c"
    " WHERE NOT EXISTS (SELECT FROM storage.listed l WHERE l.oid = c.oid AND l.name = c.name)",
    "UPDATE storage.contents SET store_id = 1, is_doubted = false WHERE store_id <> 1 OR is_doubted",
    "DELETE FROM storage.copies",
    "DELETE FROM storage.stores",
    "INSERT INTO storage.stores (id, name, is_primary) VALUES (1, 'first', true)",
    "DROP TABLE storage.listed",
)


async def merge_stores(connection: AsyncConnection, object_list: Path) -> None:
    """Leave one store, which has each object under the name that the list of a backup has."""
    async with acting_for(connection, STORAGE):
        await connection.execute(text(_LISTED))
        driver = await driver_of(connection)
        await driver.copy_records_to_table(
            "listed", schema_name=STORAGE, columns=("oid", "name"), records=_names(object_list), timeout=COPY_SECONDS
        )
        for step in _STEPS:
            await connection.execute(text(step))


async def _names(object_list: Path) -> AsyncIterator[tuple[str, str]]:
    async for batch in batches(read_list(object_list)):
        for entry in batch:
            yield entry.oid, entry.name
