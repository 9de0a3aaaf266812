"""SQL of journals: the list of segments, and the commit of the objects in a segment."""

import datetime
from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import delete, literal, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.database.statement import Statement
from services.database.transactions import Database
from services.storage.blob_names import oid_of
from services.storage.index import advisory_locks
from services.storage.index.models import Content, Discard, JournalSegment, StoreRecord

_COMMIT = "SELECT * FROM storage.commit_journaled($1, $2, $3, $4, $5, $6, $7, $8)"


class Journaled(NamedTuple):
    """An object that a repository is to hold, and whose blob is in place and in a segment."""

    repository_id: int
    oid: str
    size: int
    name: str
    user_id: int | None
    """The user who brought it; None if that is not known."""


class Committed(NamedTuple):
    """The result of the commit of one object."""

    created_at: datetime.datetime | None
    """The time since which the repository holds the object; None if it does not."""
    removal_reason: str | None
    """The reason of the object's removal from the repository; None if it was not removed."""
    is_replacing: bool
    """True if the object had another blob in the store, which is discarded."""


async def commit(
    database: Database, segment: str, store_id: int, journaled: Collection[Journaled], *, patient: bool
) -> dict[Journaled, Committed] | None:
    """Commit objects that are in a segment, in a separate transaction; see `Database.fetch`.

    Return None if another process has taken over the segment, or the store was deleted. `journaled` names each object
    of a repository once, and has one blob name for each oid.
    """
    # Sorted, so that it does not deadlock with what locks rows by oid and takes no locks of oids.
    asked = sorted(journaled, key=lambda one: (one.oid, one.repository_id))
    repository_ids, oids, sizes, names, user_ids = zip(*asked, strict=True)
    # In the order of `services.storage.index.objects.lock`, so that two transactions do not deadlock.
    shared = [*map(str, sorted(set(repository_ids))), advisory_locks.store_key(store_id)]
    values = (segment, sorted(set(oids)), shared, repository_ids, oids, sizes, names, user_ids)
    rows = await database.fetch(Statement(_COMMIT, values), patient=patient)
    return dict(zip(asked, map(Committed._make, rows), strict=True)) if rows else None


async def open_segment(connection: AsyncConnection, *, name: str, store_id: int) -> None:
    """Allow commits of a segment's objects, unless the store was deleted. May be repeated."""
    row = select(literal(name), col(StoreRecord.id)).where(col(StoreRecord.id) == store_id)
    statement = postgresql.insert(JournalSegment).from_select(["name", "store_id"], row)
    await connection.execute(statement.on_conflict_do_nothing())


async def close_segment(connection: AsyncConnection, *, name: str) -> None:
    """Prevent all further commits of a segment's objects, after waiting for those in progress."""
    await connection.execute(delete(JournalSegment).where(col(JournalSegment.name) == name))


async def committed(connection: AsyncConnection, *, store_id: int, names: Sequence[str]) -> set[str]:
    """Return those of the blob names that belong to objects in a store."""
    oids = {oid_of(name) for name in names}
    statement = select(col(Content.name)).where(
        col(Content.store_id) == store_id, col(Content.oid).in_(oids), col(Content.name).in_(names)
    )
    return set(await connection.scalars(statement))


async def uncommitted(connection: AsyncConnection, *, store_id: int, names: Sequence[str]) -> set[str]:
    """Return those of the blob names that belong to no object, and that no sweep will delete."""
    discarded = select(col(Discard.name)).where(col(Discard.store_id) == store_id, col(Discard.name).in_(names))
    return (
        set(names)
        - await committed(connection, store_id=store_id, names=names)
        - {*await connection.scalars(discarded)}
    )
