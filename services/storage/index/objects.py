"""SQL of objects. Each function runs in the transaction of its connection."""

import datetime
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import and_, delete, exists, func, or_, select, text, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.index import advisory_locks
from services.storage.index.advisory_locks import key
from services.storage.index.contents import IS_KEPT, any_of
from services.storage.index.models import DeletedRepository, Object


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
    is_collected: bool = False
    """True if it is the tombstone of an object that was removed as garbage, and may be uploaded again."""


class ObjectToAdd(NamedTuple):
    """An object that a repository is to hold."""

    repository_id: int
    oid: str
    size: int
    added_by: int | None = None
    """The user who has brought it; the first one counts."""


# What a statement returns of an object, as columns and as SQL.
RECORD = [col(getattr(Object, name)) for name in Record._fields]
RECORD_SQL = ", ".join(f"objects.{name}" for name in Record._fields)
# The version before may let a repository hold an object again, and leave the mark.
IS_COLLECTED = and_(col(Object.is_collected), col(Object.removed_at).is_not(None))
"""The condition that a row is the tombstone of an object that was removed as garbage."""

# SQL as text on the hot path, because building a statement with SQLAlchemy costs more than executing it.
_ADD = text(f"""
    INSERT INTO storage.objects (repository_id, oid, size, added_by)
    SELECT repository_id, oid, size, added_by
    FROM unnest(
        CAST(:repository_ids AS bigint[]), CAST(:oids AS text[]), CAST(:sizes AS bigint[]), CAST(:users AS bigint[])
    ) AS added (repository_id, oid, size, added_by)
    WHERE NOT EXISTS (
        SELECT FROM storage.deleted_repositories AS deleted WHERE deleted.repository_id = added.repository_id
    )
    ON CONFLICT (repository_id, oid) DO UPDATE SET size = excluded.size, used_at = now()
        WHERE objects.removed_at IS NULL
    RETURNING objects.repository_id, {RECORD_SQL}
""")  # noqa: S608 - our own names


# A statement of its own, because an INSERT that may update `removed_at` fires the trigger `object_removed` each time.
_END_COLLECTIONS = text("""
    UPDATE storage.objects
    SET removed_at = NULL, removal_reason = NULL, removed_by = NULL, bin_until = NULL, is_collected = false,
        created_at = now(), added_by = uploaded.added_by
    FROM unnest(
        CAST(:repository_ids AS bigint[]), CAST(:oids AS text[]), CAST(:users AS bigint[])
    ) AS uploaded (repository_id, oid, added_by)
    WHERE objects.repository_id = uploaded.repository_id AND objects.oid = uploaded.oid
        AND objects.is_collected AND objects.removed_at IS NOT NULL
    RETURNING objects.repository_id, objects.oid
""")
_COPY = text("""
    INSERT INTO storage.objects (repository_id, oid, size)
    SELECT :to_repository_id, oid, size FROM storage.objects AS held
    WHERE repository_id = :repository_id AND oid = ANY(CAST(:oids AS text[])) AND removed_at IS NULL
        AND EXISTS (SELECT FROM storage.contents WHERE contents.oid = held.oid AND NOT is_doubted)
    ON CONFLICT (repository_id, oid) DO UPDATE
        SET removed_at = NULL, removal_reason = NULL, removed_by = NULL, bin_until = NULL, is_collected = false,
            created_at = now()
        WHERE objects.is_collected AND objects.removed_at IS NOT NULL
    RETURNING oid
""")
_USE_COPIED = text("""
    UPDATE storage.objects SET used_at = now()
    WHERE repository_id = :to_repository_id AND oid = ANY(CAST(:oids AS text[])) AND removed_at IS NULL
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
    statement = select(*RECORD).where(col(Object.repository_id) == repository_id, col(Object.oid) == oid)
    return record_of((await connection.execute(statement)).one_or_none())


async def is_kept(connection: AsyncConnection, oid: str) -> bool:
    """Return whether any repository holds the object, or has it in its bin."""
    return bool(await connection.scalar(select(exists().where(col(Object.oid) == oid, IS_KEPT))))


async def add(connection: AsyncConnection, added: Collection[ObjectToAdd]) -> dict[tuple[int, str], Record]:
    """Record that repositories hold objects, each named once, and return the records by repository id and oid.

    Objects that were removed, or whose repository was deleted, are missing in the result. The caller must have called
    `lock`. The records cannot change until the transaction ends.
    """
    # Sorted, so that it does not deadlock with what locks rows by oid and takes no locks of oids.
    repository_ids, oids, sizes, users = zip(*sorted(added, key=_by_oid), strict=True)
    values = {"repository_ids": repository_ids, "oids": oids, "sizes": sizes, "users": users}
    return {
        (repository_id, record[0]): Record(*record) for repository_id, *record in await connection.execute(_ADD, values)
    }


async def end_collections(connection: AsyncConnection, uploaded: Collection[ObjectToAdd]) -> list[ObjectToAdd]:
    """Make repositories hold those of these objects that were removed as garbage, and return them.

    The caller must have called `lock`, and have the bytes.
    """
    repository_ids, oids, _, users = zip(*sorted(uploaded, key=_by_oid), strict=True)
    values = {"repository_ids": repository_ids, "oids": oids, "users": users}
    rows = await connection.execute(_END_COLLECTIONS, values)
    ended = {(repository_id, oid) for repository_id, oid in rows}
    return [upload for upload in uploaded if (upload.repository_id, upload.oid) in ended]


async def copy(connection: AsyncConnection, repository_id: int, to_repository_id: int, oids: Sequence[str]) -> set[str]:
    """Record that a repository holds those of these objects that another one holds, and return what it did not hold.

    Objects without an undamaged blob are left out, and so are those that were removed from the repository. The caller
    must have called `lock`.
    """
    values = {"repository_id": repository_id, "to_repository_id": to_repository_id, "oids": list(oids)}
    copied = set(await connection.scalars(_COPY, values))
    # A collection must not take at once what was there before the copy.
    await connection.execute(_USE_COPIED, {"to_repository_id": to_repository_id, "oids": list(oids)})
    return copied


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

    The bytes are kept for the time `bin_for`. The tombstone of an object that was removed as garbage becomes one of a
    removal.
    """
    until = func.now() + bin_for if bin_for else None
    statement = (
        update(Object)
        .where(
            col(Object.repository_id) == repository_id,
            col(Object.oid) == oid,
            or_(col(Object.removed_at).is_(None), col(Object.is_collected)),
        )
        .values(
            removed_at=func.now(), removal_reason=reason, removed_by=removed_by, bin_until=until, is_collected=False
        )
        .returning(*RECORD)
    )
    return record_of((await connection.execute(statement)).one_or_none())


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
        .returning(*RECORD)
    )
    return [Record._make(row) for row in await connection.execute(statement)]


def _by_oid(added: ObjectToAdd) -> tuple[str, int]:
    return added.oid, added.repository_id


def record_of(row: Iterable[Any] | None) -> Record | None:
    """Return the record in a row of the columns `RECORD`; None for no row."""
    return None if row is None else Record._make(row)
