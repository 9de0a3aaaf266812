"""Bytes of Postgres that locks, objects and their histories take, and bytes of WAL for each change of them.

`python -m benchmarks.rows` fills its own Postgres with 100,000 locks and 1,000,000 objects, prints tables, and writes
benchmarks/rows.json, an input of `benchmarks.scaling`.
"""

import argparse
import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection

from services.database.engine import create_engine
from services.database.migrations import migrate
from services.database.transactions import Database
from services.locks.locking.release import remove_lock
from services.locks.locking.spaces import KnownRules
from services.locks.locking.table import LockLimits, create_lock
from services.locks.models import SCHEMA as LOCKS
from services.storage.blob_names import new_name
from services.storage.index.contents import FIRST_STORE_ID, PendingBlob, UploadedBlob
from services.storage.index.registrar import UploadRegistrar, VerifiedUpload
from services.storage.index.schema import SCHEMA as STORAGE
from tests.support.postgres import running_postgres

ROWS = Path(__file__).with_suffix(".json")
_CHANGES = 500
_PORTION = 20_000

_PEOPLE = """
INSERT INTO users (name, administrator) SELECT format('user.%s@studio.example', n), false FROM generate_series(1, 200) n
"""
_REPOSITORY = """
INSERT INTO repositories (name, public, forced_unlock)
SELECT format('studio/film-%s', n), false, 'writers' FROM generate_series(1, 20) n
"""
# Paths as they are in a project of a studio.
_LOCKS = """
INSERT INTO locks (repository_id, path, path_hash, owner_id, locked_at, idempotency_key)
SELECT 1 + n % 20, path, sha256(path::bytea), 1 + n % 200, date_trunc('second', now()), md5(n::text)
FROM (
    SELECT n, format('content/characters/hero_%s/textures/part_%s/skin_%s.tif', n % 97, n % 1013, n) AS path
    FROM generate_series(CAST(:first AS int), CAST(:last AS int)) n
) made
"""
_RELEASED = """
INSERT INTO released_locks (lock_id, repository_id, path, path_hash, owner_id, owner_name, locked_at, released_by_id,
                            released_by, forced, idempotency_key)
SELECT l.id, repository_id, path, path_hash, owner_id, name, locked_at, owner_id, name, false, idempotency_key
FROM locks l JOIN users u ON u.id = owner_id ORDER BY l.id
"""
_OBJECTS = """
WITH made AS (
    INSERT INTO objects (repository_id, oid, size)
    SELECT 1 + n % 20, encode(sha256(n::text::bytea), 'hex'), 1000 + n
    FROM generate_series(CAST(:first AS int), CAST(:last AS int)) n RETURNING oid
)
INSERT INTO contents (store_id, oid, name) SELECT 1, oid, oid || '.' || left(md5(oid), 16) FROM made
"""
_PATH_BYTES = "SELECT avg(octet_length(path)) FROM locks"


async def _main(locks: int, objects: int, pause: float) -> None:
    async with running_postgres() as server, server.database() as url:
        databases = {}
        for schema in (LOCKS, STORAGE):
            await migrate(url, schema)
            databases[schema.name] = Database(create_engine(url, schema=schema.name, pool_size=2))
        try:
            await _fill(databases[LOCKS.name], databases[STORAGE.name], locks, objects, pause)
            await server.execute("VACUUM ANALYZE", database=_name(url))
            print("| table | rows | bytes a row, table | indexes | together |\n|---|---|---|---|---|")
            rows = await _sizes(databases[LOCKS.name], locks, ("locks", "released_locks"))
            rows |= await _sizes(databases[STORAGE.name], objects, ("objects", "contents"))
            print(f"\na path has {float(await _one(databases[LOCKS.name], _PATH_BYTES)):.0f} bytes on average\n")
            wal = await _wal_of_changes(server.execute, databases[LOCKS.name], databases[STORAGE.name])
            ROWS.write_text(json.dumps({"rows": rows, "wal": wal}, indent=2) + "\n")
        finally:
            for database in databases.values():
                await database.close()


def _name(url: SecretStr) -> str:
    return make_url(url.get_secret_value()).database or ""


async def _one(database: Database, statement: str, **values: object) -> float:
    async def work(connection: AsyncConnection) -> float:
        return float((await connection.execute(text(statement), values)).scalar_one())

    return await database.run(work)


async def _do(database: Database, statement: str, **values: object) -> None:
    async def work(connection: AsyncConnection) -> None:
        await connection.execute(text(statement), values)

    await database.run(work)


async def _fill(locks: Database, storage: Database, lock_count: int, object_count: int, pause: float) -> None:
    await _do(locks, _PEOPLE)
    await _do(locks, _REPOSITORY)
    # In portions, as no statement may take longer than 10 s.
    for database, statement, count in ((locks, _LOCKS, lock_count), (storage, _OBJECTS, object_count)):
        for first in range(1, count + 1, _PORTION):
            await _do(database, statement, first=first, last=min(first + _PORTION - 1, count))
            await asyncio.sleep(pause)
    await _do(locks, _RELEASED)


async def _sizes(database: Database, rows: int, tables: tuple[str, ...]) -> dict[str, float]:
    """Print how many bytes a row has, and return it with those of its entries in indexes."""
    found = {}
    for table in tables:
        own = await _one(database, "SELECT pg_table_size(CAST(:name AS regclass))", name=table) / rows
        indexes = await _one(database, "SELECT pg_indexes_size(CAST(:name AS regclass))", name=table) / rows
        found[table] = own + indexes
        print(f"| `{table}` | {rows:,} | {own:.0f} | {indexes:.0f} | {found[table]:.0f} |")
    return found


_UNLIMITED = LockLimits(per_repository=10**9, per_user=10**9)


async def _wal_of_changes(
    execute: Callable[[str], Awaitable[str]], locks: Database, storage: Database
) -> dict[str, float]:
    """Print and return how much WAL a change writes just after a checkpoint, and without the whole pages of then."""
    ids: list[int] = []
    known = KnownRules()

    async def lock(number: int) -> None:
        path = f"content/new/part_{number}/{secrets.token_hex(12)}.tif"
        made, _ = await create_lock(
            locks,
            repository_id=1,
            user_id=1,
            path=path,
            idempotency_key=secrets.token_hex(16),
            limits=_UNLIMITED,
            known=known,
            ref="refs/heads/main",
        )
        ids.append(made.id)

    async def unlock(_number: int) -> None:
        lock_id = ids.pop()
        await locks.run(
            lambda connection: remove_lock(
                connection,
                repository_id=1,
                lock_id=lock_id,
                user_id=1,
                force=False,
                idempotency_key=secrets.token_hex(16),
            )
        )

    registrar = UploadRegistrar(storage, writer=1)

    async def upload(_number: int) -> None:
        oid = secrets.token_hex(32)
        name = new_name(oid)
        await registrar.begin([PendingBlob(1, FIRST_STORE_ID, oid, name)])
        arrived = UploadedBlob(FIRST_STORE_ID, oid, name, replaces=None, replaced_seconds=0)
        await registrar.register(VerifiedUpload(1, oid, 1000, [arrived]))

    print("| change | bytes of WAL, just after a checkpoint | without whole pages |\n|---|---|---|")
    found = {}
    for what, change in (("lock", lock), ("unlock", unlock), ("upload", upload)):
        await execute("CHECKPOINT")
        bytes_, pages = await _wal(execute, change)
        print(f"| {what} | {bytes_:,.0f} | {bytes_ - pages:,.0f} |")
        found[what] = bytes_
    await registrar.close()
    return found


async def _wal(
    execute: Callable[[str], Awaitable[str]], change: Callable[[int], Awaitable[None]]
) -> tuple[float, float]:
    """Return the bytes of WAL of a change, and of these the ones of whole pages."""
    before = await execute("SELECT pg_current_wal_insert_lsn()")
    for number in range(_CHANGES):
        await change(number)
    after = await execute("SELECT pg_current_wal_insert_lsn()")
    await execute("SET client_min_messages = error; CREATE EXTENSION IF NOT EXISTS pg_walinspect")
    told = await execute(
        f"SELECT sum(record_size + fpi_size), sum(fpi_size) FROM pg_get_wal_stats('{before}', '{after}')"  # noqa: S608 - positions that Postgres itself has told
    )
    together, pages = (float(each) for each in told.split("|"))
    return together / _CHANGES, pages / _CHANGES


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locks", type=int, default=100_000)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each portion of rows")
    told = parser.parse_args()
    asyncio.run(_main(told.locks, told.objects, told.pause))
