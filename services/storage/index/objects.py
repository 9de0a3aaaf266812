"""SQL of objects. Each function runs in the transaction of its connection."""

import datetime
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import delete, exists, func, select, text, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.index import advisory_locks
from services.storage.index.advisory_locks import key
from services.storage.index.contents import any_of
from services.storage.index.models import DeletedRepository, Object


class Record(NamedTuple):
    """An object that a repository holds, or, with `removed_at`, the tombstone of one."""

    oid: str
    size: int
    created_at: datetime.datetime
    removed_at: datetime.datetime | None
    removal_reason: str | None
    removed_by: str | None


class ObjectToAdd(NamedTuple):
    """An object that a repository is to hold."""

    repository_id: int
    oid: str
    size: int


_RECORD = [col(getattr(Object, name)) for name in Record._fields]
_RECORD_SQL = ", ".join(f"objects.{name}" for name in Record._fields)

# SQL as text on the hot path, because building a statement with SQLAlchemy costs more than executing it.
_ADD = text(f"""
    INSERT INTO storage.objects (repository_id, oid, size)
    SELECT repository_id, oid, size
    FROM unnest(CAST(:repository_ids AS bigint[]), CAST(:oids AS text[]), CAST(:sizes AS bigint[]))
        AS added (repository_id, oid, size)
    WHERE NOT EXISTS (
        SELECT FROM storage.deleted_repositories AS deleted WHERE deleted.repository_id = added.repository_id
    )
    ON CONFLICT (repository_id, oid) DO UPDATE SET size = excluded.size WHERE objects.removed_at IS NULL
    RETURNING objects.repository_id, {_RECORD_SQL}
""")  # noqa: S608 - our own names


async def lock(
    connection: AsyncConnection, oids: Iterable[str], *, into: Iterable[int] = (), stores: Iterable[int] = ()
) -> None:
    """Prevent other transactions from changing the locations of `oids` until this transaction ends.

    Neither the repositories with the ids `into` nor the stores can be deleted meanwhile.
    """
    # In one order everywhere, so that two transactions do not deadlock.
    shared = [*map(str, sorted(set(into))), *map(advisory_locks.store_key, sorted(set(stores)))]
    await advisory_locks.lock(connection, alone=sorted(set(oids)), shared=shared)


async def hold_deletions(connection: AsyncConnection) -> None:
    """Prevent the deletion of blobs that are needed now or later, for as long as this connection lives."""
    await connection.execute(select(func.pg_advisory_lock(key("deletions"))))


async def may_delete(connection: AsyncConnection) -> bool:
    """Return whether blobs that are due now may be deleted: not while `hold_deletions` of another connection lasts."""
    return bool(await connection.scalar(select(func.pg_try_advisory_xact_lock_shared(key("deletions")))))


async def close_repository(connection: AsyncConnection, repository_id: int) -> None:
    """Prevent all further additions to the repository, after waiting for those in progress."""
    await connection.execute(select(func.pg_advisory_xact_lock(key(repository_id))))
    await connection.execute(
        postgresql.insert(DeletedRepository).values(repository_id=repository_id).on_conflict_do_nothing()
    )


async def is_deleted(connection: AsyncConnection, repository_id: int) -> bool:
    """Return whether the repository was deleted."""
    deleted = exists().where(col(DeletedRepository.repository_id) == repository_id)
    return bool(await connection.scalar(select(deleted)))


async def find(connection: AsyncConnection, repository_id: int, oid: str) -> Record | None:
    """Return the record of an object, held or removed; None if there is none."""
    statement = select(*_RECORD).where(col(Object.repository_id) == repository_id, col(Object.oid) == oid)
    return _record((await connection.execute(statement)).one_or_none())


async def is_held(connection: AsyncConnection, oid: str) -> bool:
    """Return whether any repository holds the object."""
    held = exists().where(col(Object.oid) == oid, col(Object.removed_at).is_(None))
    return bool(await connection.scalar(select(held)))


async def page(connection: AsyncConnection, repository_id: int, *, after: str, limit: int) -> list[Record]:
    """Return the keyset page of up to `limit` records by oid after the oid `after`."""
    statement = (
        select(*_RECORD)
        .where(col(Object.repository_id) == repository_id, col(Object.oid) > after)
        .order_by(col(Object.oid))
        .limit(limit)
    )
    return [Record._make(row) for row in await connection.execute(statement)]


async def add(connection: AsyncConnection, added: Collection[ObjectToAdd]) -> dict[tuple[int, str], Record]:
    """Record that repositories hold objects, each named once, and return the records by repository id and oid.

    Objects that were removed, or whose repository was deleted, are missing in the result. The caller must have called
    `lock`. The records cannot change until the transaction ends.
    """
    repository_ids, oids, sizes = zip(*added, strict=True)
    values = {"repository_ids": repository_ids, "oids": oids, "sizes": sizes}
    return {
        (repository_id, record[0]): Record(*record) for repository_id, *record in await connection.execute(_ADD, values)
    }


async def add_tombstone(
    connection: AsyncConnection, repository_id: int, oid: str, *, reason: str, removed_by: str
) -> Record | None:
    """Turn the record of a held object into a tombstone and return it; None if the object is not held."""
    statement = (
        update(Object)
        .where(
            col(Object.repository_id) == repository_id,
            col(Object.oid) == oid,
            col(Object.removed_at).is_(None),
        )
        .values(removed_at=func.now(), removal_reason=reason, removed_by=removed_by)
        .returning(*_RECORD)
    )
    return _record((await connection.execute(statement)).one_or_none())


async def remove_tombstone(connection: AsyncConnection, repository_id: int, oid: str) -> bool:
    """Delete a tombstone; return whether there was a tombstone."""
    statement = delete(Object).where(
        col(Object.repository_id) == repository_id,
        col(Object.oid) == oid,
        col(Object.removed_at).is_not(None),
    )
    return (await connection.execute(statement)).rowcount > 0


async def some_of(connection: AsyncConnection, repository_id: int, *, limit: int) -> list[str]:
    """Return up to `limit` oids of a repository's records."""
    statement = (
        select(col(Object.oid)).where(col(Object.repository_id) == repository_id).order_by(col(Object.oid)).limit(limit)
    )
    return list(await connection.scalars(statement))


async def forget(connection: AsyncConnection, repository_id: int, oids: Sequence[str]) -> list[Record]:
    """Delete the records of these objects in a repository, and return them."""
    statement = (
        delete(Object)
        .where(col(Object.repository_id) == repository_id, col(Object.oid) == any_of(oids))
        .returning(*_RECORD)
    )
    return [Record._make(row) for row in await connection.execute(statement)]


def _record(row: Iterable[Any] | None) -> Record | None:
    return None if row is None else Record._make(row)
