"""The database part of a backup: all tables and the list of objects, as they are at one moment."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.backup import database
from services.backup.database import COPY_SECONDS, SCHEMAS, Relation, acting_for, driver_of
from services.backup.errors import BackupError
from services.backup.manifest import Sequence, TableFile
from services.backup.object_list import QUERY
from services.common.concurrency.files import new_file
from services.common.concurrency.uncancellable import run_in_thread
from services.database.versions import RESTORING, version_of
from services.storage.index.models import SCHEMA_NAME as STORAGE


@dataclass(frozen=True)
class Snapshot:
    """The entries of a snapshot in the manifest."""

    revisions: dict[str, str]
    tables: tuple[TableFile, ...]
    sequences: tuple[Sequence, ...]
    objects_sha256: str


async def take_snapshot(engine: AsyncEngine, folder: Path) -> Snapshot:
    """Write all tables and the list of objects into the folder, durably, in one read-only transaction.

    Raises `BackupError` if the tables do not exist.
    """
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        revisions = {}
        for name in SCHEMAS:
            revision = await version_of(connection, name)
            if revision is None or revision == RESTORING:
                raise BackupError(f"the schema {name} has no tables: nothing to back up")
            revisions[name] = revision
        written = [
            await _copy_out(connection, table, columns, folder)
            for table, columns in (await database.tables(connection)).items()
        ]
        # Sequences are not transactional: a sequence that is read after the rows is never behind them.
        sequences = [await _sequence(connection, sequence) for sequence in await database.sequences(connection)]
        _, objects_sha256 = await _copy_rows(connection, STORAGE, QUERY, folder / "objects")
        return Snapshot(revisions, tuple(written), tuple(sequences), objects_sha256)


async def _copy_out(connection: AsyncConnection, table: Relation, columns: tuple[str, ...], folder: Path) -> TableFile:
    selected = ", ".join(f'"{column}"' for column in columns)
    query = f"SELECT {selected} FROM {table.quoted}"  # noqa: S608 - names that Postgres gave, quoted
    rows, sha256 = await _copy_rows(connection, table.schema, query, folder / f"{table.schema}.{table.name}")
    return TableFile(schema_name=table.schema, table=table.name, columns=columns, rows=rows, sha256=sha256)


async def _copy_rows(connection: AsyncConnection, schema: str, query: str, path: Path) -> tuple[int, str]:
    """Write the rows of a query to a new file, as the owner of a schema; return their number and their SHA-256."""
    digest, rows = hashlib.sha256(), 0

    def write(data: bytes) -> None:
        nonlocal rows
        file.write(data)
        digest.update(data)
        # COPY escapes a line break within a value as `\n`, so that a row is one line.
        rows += data.count(b"\n")

    async with acting_for(connection, schema), new_file(path) as file:
        driver = await driver_of(connection)
        await driver.copy_from_query(query, output=lambda data: run_in_thread(write, data), timeout=COPY_SECONDS)
    return rows, digest.hexdigest()


async def _sequence(connection: AsyncConnection, sequence: Relation) -> Sequence:
    async with acting_for(connection, sequence.schema):
        query = f"SELECT last_value FROM {sequence.quoted}"  # noqa: S608 - names that Postgres gave, quoted
        last_value = await connection.scalar(text(query))
    return Sequence(schema_name=sequence.schema, name=sequence.name, last_value=last_value)
