"""The SQL of journals: which segments there are, and the commit of what is in one."""

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

_COMMIT = "SELECT * FROM storage.commit_journaled($1, $2, $3, $4, $5, $6, $7)"


class Journaled(NamedTuple):
    """An object that a repository is to hold, whose bytes are in place under a name, and in a segment."""

    repository_id: int
    oid: str
    size: int
    name: str


class Committed(NamedTuple):
    """The answer for one object."""

    created_at: datetime.datetime | None
    """The moment since which the repository holds it; None where it does not."""
    removal_reason: str | None
    """The reason of its removal from the repository; None where it was not removed."""
    is_replacing: bool
    """True where the object had other bytes in the store, which are discarded."""


async def commit(
    database: Database, segment: str, store_id: int, journaled: Collection[Journaled], *, patient: bool
) -> dict[Journaled, Committed] | None:
    """Let repositories hold objects that are in a segment, in a transaction of its own; see `Database.fetch`.

    None where others have taken the segment over, or the store was forgotten. Each object of a repository is there
    once, and each oid has one name.
    """
    asked = list(journaled)
    repository_ids, oids, sizes, names = zip(*asked, strict=True)
    # In the order of `index.lock`.
    shared = [*map(str, sorted(set(repository_ids))), advisory_locks.store_key(store_id)]
    values = (segment, sorted(set(oids)), shared, repository_ids, oids, sizes, names)
    rows = await database.fetch(Statement(_COMMIT, values), patient=patient)
    return dict(zip(asked, map(Committed._make, rows), strict=True)) if rows else None


async def open_segment(connection: AsyncConnection, *, name: str, store_id: int) -> None:
    """Let what is in a segment be committed, unless the store was forgotten. May be repeated."""
    row = select(literal(name), col(StoreRecord.id)).where(col(StoreRecord.id) == store_id)
    statement = postgresql.insert(JournalSegment).from_select(["name", "store_id"], row)
    await connection.execute(statement.on_conflict_do_nothing())


async def close_segment(connection: AsyncConnection, *, name: str) -> None:
    """Let nothing more be committed of a segment; commits that go on are waited for."""
    await connection.execute(delete(JournalSegment).where(col(JournalSegment.name) == name))


async def committed(connection: AsyncConnection, *, store_id: int, names: Sequence[str]) -> set[str]:
    """Return those of the names under which bytes of objects lie in a store."""
    oids = {oid_of(name) for name in names}
    statement = select(col(Content.name)).where(
        col(Content.store_id) == store_id, col(Content.oid).in_(oids), col(Content.name).in_(names)
    )
    return set(await connection.scalars(statement))


async def uncommitted(connection: AsyncConnection, *, store_id: int, names: Sequence[str]) -> set[str]:
    """Return those of the names that no bytes of objects lie under, and that no sweep will discard."""
    discarded = select(col(Discard.name)).where(col(Discard.store_id) == store_id, col(Discard.name).in_(names))
    return (
        set(names)
        - await committed(connection, store_id=store_id, names=names)
        - {*await connection.scalars(discarded)}
    )
