"""The merge of the rows of several stores into one, because a restore writes all bytes to one store."""

from collections.abc import AsyncIterator
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.backup.database import COPY_SECONDS, acting_for, driver_of
from services.backup.object_list import read_list
from services.backup.parallel import batches
from services.storage.index.models import SCHEMA_NAME as STORAGE

_LISTED = 'CREATE TABLE storage.listed (oid varchar(64) COLLATE "C" PRIMARY KEY, name varchar(81) COLLATE "C" NOT NULL)'
# The one store is that of the settings, with the row that the migration inserts into the table of stores.
_STEPS = (
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


async def merge_stores(connection: AsyncConnection, object_list: Path) -> None:
    """Merge all stores into one that has each object under its name in the list of the backup."""
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
