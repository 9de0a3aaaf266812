"""The database part of a backup: all tables and the list of objects, as they are at one moment."""

import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.backup import database
from services.backup.database import COPY_SECONDS, SCHEMAS, Relation, acting_for, driver_of
from services.backup.errors import BackupError
from services.backup.manifest import Sequence, TableFile
from services.backup.object_list import QUERY
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


class _Rows:
    """A file that COPY writes, with its digest and its number of rows."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.rows = 0

    async def write(self, data: bytes) -> None:
        await run_in_thread(self._write, data)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        # COPY escapes a line break within a value as `\n`, so that a row is one line.
        self.rows += data.count(b"\n")

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


@asynccontextmanager
async def _rows(path: Path) -> AsyncIterator[_Rows]:
    file = await run_in_thread(path.open, "xb")
    try:
        yield _Rows(file)
        await run_in_thread(file.flush)
        await run_in_thread(os.fsync, file.fileno())
    finally:
        await run_in_thread(file.close)


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
        async with acting_for(connection, STORAGE), _rows(folder / "objects") as rows:
            await (await driver_of(connection)).copy_from_query(QUERY, output=rows.write, timeout=COPY_SECONDS)
        return Snapshot(revisions, tuple(written), tuple(sequences), rows.sha256)


async def _copy_out(connection: AsyncConnection, table: Relation, columns: tuple[str, ...], folder: Path) -> TableFile:
    selected = ", ".join(f'"{column}"' for column in columns)
    name = f"{table.schema}.{table.name}"
    async with acting_for(connection, table.schema), _rows(folder / name) as rows:
        query = f"SELECT {selected} FROM {table.quoted}"  # noqa: S608 - names that Postgres gave, quoted
        await (await driver_of(connection)).copy_from_query(query, output=rows.write, timeout=COPY_SECONDS)
    return TableFile(schema_name=table.schema, table=table.name, columns=columns, rows=rows.rows, sha256=rows.sha256)


async def _sequence(connection: AsyncConnection, sequence: Relation) -> Sequence:
    async with acting_for(connection, sequence.schema):
        query = f"SELECT last_value FROM {sequence.quoted}"  # noqa: S608 - names that Postgres gave, quoted
        last_value = await connection.scalar(text(query))
    return Sequence(schema_name=sequence.schema, name=sequence.name, last_value=last_value)
