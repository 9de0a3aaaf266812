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
from services.storage.index.contents import IS_KEPT, any_of
from services.storage.index.models import Content, DeletedRepository, Object


class Record(NamedTuple):
    """An object that a repository holds, or, with `removed_at`, the tombstone of one."""

    oid: str
    size: int
    created_at: datetime.datetime
    removed_at: datetime.datetime | None
    removal_reason: str | None
    removed_by: str | None
    bin_until: datetime.datetime | None = None
    """The time until which the bytes of a removed object are kept; None if they are gone."""


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

_COPY = text("""
    INSERT INTO storage.objects (repository_id, oid, size)
    SELECT :to_repository_id, oid, size FROM storage.objects AS held
    WHERE repository_id = :repository_id AND oid = ANY(CAST(:oids AS text[])) AND removed_at IS NULL
        AND EXISTS (SELECT FROM storage.contents WHERE contents.oid = held.oid AND NOT is_doubted)
    ON CONFLICT (repository_id, oid) DO NOTHING
    RETURNING oid
""")

MAX_LOCKED = 200
"""The most objects that one transaction should lock, because Postgres has room for some thousands of locks."""


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


async def is_kept(connection: AsyncConnection, oid: str) -> bool:
    """Return whether any repository holds the object, or has it in its bin."""
    return bool(await connection.scalar(select(exists().where(col(Object.oid) == oid, IS_KEPT))))


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


async def copy(connection: AsyncConnection, repository_id: int, to_repository_id: int, oids: Sequence[str]) -> set[str]:
    """Record that a repository holds those of these objects that another one holds, and return what it did not hold.

    Objects without an undamaged blob are left out, and so are those that were removed from the repository. The caller
    must have called `lock`.
    """
    values = {"repository_id": repository_id, "to_repository_id": to_repository_id, "oids": list(oids)}
    return set(await connection.scalars(_COPY, values))


async def held_or_removed(connection: AsyncConnection, repository_id: int, oids: Sequence[str]) -> dict[str, bool]:
    """Return those of `oids` that a repository has a record of, each with whether it is a tombstone."""
    statement = select(col(Object.oid), col(Object.removed_at).is_not(None).label("is_removed")).where(
        col(Object.repository_id) == repository_id, col(Object.oid) == any_of(oids)
    )
    return {row.oid: row.is_removed for row in await connection.execute(statement)}


async def add_tombstone(
    connection: AsyncConnection,
    repository_id: int,
    oid: str,
    *,
    reason: str,
    removed_by: str,
    bin_for: datetime.timedelta,
) -> Record | None:
    """Turn the record of a held object into a tombstone and return it; None if the object is not held.

    The bytes are kept for the time `bin_for`.
    """
    until = func.now() + bin_for if bin_for else None
    statement = (
        update(Object)
        .where(
            col(Object.repository_id) == repository_id,
            col(Object.oid) == oid,
            col(Object.removed_at).is_(None),
        )
        .values(removed_at=func.now(), removal_reason=reason, removed_by=removed_by, bin_until=until)
        .returning(*_RECORD)
    )
    return _record((await connection.execute(statement)).one_or_none())


async def take_out_of_bin(connection: AsyncConnection, repository_id: int, oid: str) -> Record | None:
    """Make a repository hold an object in its bin again, and return it; None if the bytes are not there."""
    statement = (
        update(Object)
        .where(
            col(Object.repository_id) == repository_id,
            col(Object.oid) == oid,
            col(Object.bin_until).is_not(None),
            # A service of an earlier version knows no bin, and may have let the bytes go.
            exists().where(col(Content.oid) == oid),
        )
        .values(removed_at=None, removal_reason=None, removed_by=None, bin_until=None)
        .returning(*_RECORD)
    )
    return _record((await connection.execute(statement)).one_or_none())


async def end_in_bin(connection: AsyncConnection, repository_id: int, oid: str) -> Record | None:
    """Let the bytes of a removed object be kept no more, and return its tombstone; None if it was not removed."""
    statement = (
        update(Object)
        .where(col(Object.repository_id) == repository_id, col(Object.oid) == oid, col(Object.removed_at).is_not(None))
        .values(bin_until=None)
        .returning(*_RECORD)
    )
    return _record((await connection.execute(statement)).one_or_none())


async def due_in_bin(connection: AsyncConnection, *, limit: int) -> list[str]:
    """Return up to `limit` oids of objects whose time in a bin is over."""
    due = select(col(Object.oid)).where(col(Object.bin_until) <= func.now()).order_by(col(Object.bin_until))
    return list(await connection.scalars(due.limit(limit)))


async def end_due_in_bin(connection: AsyncConnection, oids: Sequence[str]) -> None:
    """Let the bytes of those of `oids` be kept no more whose time in a bin is over."""
    due = update(Object).where(col(Object.oid) == any_of(oids), col(Object.bin_until) <= func.now())
    await connection.execute(due.values(bin_until=None))


async def seconds_in_bin(connection: AsyncConnection) -> float | None:
    """Return the number of seconds until the time of the next object in a bin is over; None if there is none."""
    seconds = await connection.scalar(select(func.extract("epoch", func.min(col(Object.bin_until)) - func.now())))
    return None if seconds is None else max(0.0, float(seconds))


async def repositories_that_keep(connection: AsyncConnection, oid: str, *, limit: int) -> list[int]:
    """Return up to `limit` ids of repositories that hold an object, or have it in their bin, in ascending order."""
    statement = select(col(Object.repository_id)).where(col(Object.oid) == oid, IS_KEPT)
    return list(await connection.scalars(statement.order_by(col(Object.repository_id)).limit(limit)))


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
