"""SQL of collections of garbage. Each function runs in the transaction of its connection.

What a collection retains is in a table for as long as it goes on. Garbage is found page by page, so that no statement
takes long, whatever the number of objects.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import delete, func, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.errors import collection_ended
from services.storage.index.models import CollectionRecord
from services.storage.index.objects import RECORD_SQL, Record
from services.storage.index.uses import ANNOUNCED_SECONDS

PAGE = 20_000
"""The objects that one statement looks through."""

_LEFT = datetime.timedelta(days=1)


class Collection(NamedTuple):
    """A collection: what was not used since `unused_since` and is not retained is garbage."""

    id: int
    repository_id: int
    unused_since: datetime.datetime


@dataclass(frozen=True)
class Tally:
    """Counts of objects, and their bytes."""

    held_count: int = 0
    held_bytes: int = 0
    garbage_count: int = 0
    garbage_bytes: int = 0
    freed_bytes: int = 0
    """The bytes of garbage that no other repository holds or has in its bin."""
    grace_count: int = 0
    """The number of objects that are neither retained nor garbage."""
    retained_held_count: int = 0
    oldest: datetime.datetime | None = None
    """The time since which the repository has held the oldest garbage."""
    newest: datetime.datetime | None = None

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            held_count=self.held_count + other.held_count,
            held_bytes=self.held_bytes + other.held_bytes,
            garbage_count=self.garbage_count + other.garbage_count,
            garbage_bytes=self.garbage_bytes + other.garbage_bytes,
            freed_bytes=self.freed_bytes + other.freed_bytes,
            grace_count=self.grace_count + other.grace_count,
            retained_held_count=self.retained_held_count + other.retained_held_count,
            oldest=min((time for time in (self.oldest, other.oldest) if time is not None), default=None),
            newest=max((time for time in (self.newest, other.newest) if time is not None), default=None),
        )


# An announcement is recorded only if the last recorded use is older than this.
_USED = f"GREATEST(objects.created_at, objects.used_at + interval '{ANNOUNCED_SECONDS} seconds')"
# The objects that a statement looks through, of a page or by name.
_IN_PAGE, _NAMED = "objects.oid > :after AND objects.oid <= :last", "objects.oid = ANY(CAST(:oids AS text[]))"
# Scalar, so that each object takes one step in an index. Postgres would join with EXISTS, and compare each object with
# each row of a table that has just been filled, of which it knows no statistics.
_IS_RETAINED = """(
        SELECT true FROM storage.retained_oids
        WHERE retained_oids.collection_id = :id AND retained_oids.oid = objects.oid
    ) IS NOT NULL"""
_HAS_BYTES = """(
        SELECT true FROM storage.contents WHERE contents.oid = objects.oid AND NOT is_doubted LIMIT 1
    ) IS NOT NULL"""


def _is_garbage(among: str) -> str:
    return f"""objects.repository_id = :repository_id AND {among} AND objects.removed_at IS NULL
        AND {_USED} < :unused_since AND NOT {_IS_RETAINED}"""


def _is_returning(among: str) -> str:
    return f"""objects.repository_id = :repository_id AND {among} AND objects.is_collected
        AND objects.removed_at IS NOT NULL AND objects.bin_until IS NOT NULL AND {_IS_RETAINED} AND {_HAS_BYTES}"""


_OPEN = text("""
    INSERT INTO storage.collections (repository_id) VALUES (:repository_id)
    RETURNING id, now() - (CAST(:listed_ago AS interval) + CAST(:grace AS interval))
""")
_RETAIN = text("""
    INSERT INTO storage.retained_oids (collection_id, oid)
    SELECT :id, objects.oid FROM storage.objects
    WHERE objects.repository_id = :repository_id AND objects.oid = ANY(CAST(:oids AS text[]))
    ON CONFLICT DO NOTHING
""")
_LAST = text("""
    SELECT max(oid) FROM (
        SELECT oid FROM storage.objects WHERE repository_id = :repository_id AND oid > :after ORDER BY oid LIMIT :limit
    ) AS page
""")
_TALLY = text(f"""
    SELECT count(*) AS held_count, coalesce(sum(size), 0) AS held_bytes,
        count(*) FILTER (WHERE is_garbage) AS garbage_count,
        coalesce(sum(size) FILTER (WHERE is_garbage), 0) AS garbage_bytes,
        coalesce(sum(size) FILTER (WHERE is_garbage AND NOT EXISTS (
            SELECT FROM storage.objects AS others
            WHERE others.oid = held.oid AND others.repository_id <> :repository_id
                AND (others.removed_at IS NULL OR others.bin_until IS NOT NULL)
        )), 0) AS freed_bytes,
        count(*) FILTER (WHERE NOT is_garbage AND NOT is_retained) AS grace_count,
        count(*) FILTER (WHERE is_retained) AS retained_held_count,
        min(created_at) FILTER (WHERE is_garbage) AS oldest, max(created_at) FILTER (WHERE is_garbage) AS newest
    FROM (
        SELECT oid, size, created_at, is_retained, NOT is_retained AND used < :unused_since AS is_garbage
        FROM (
            SELECT oid, size, created_at, {_USED} AS used, {_IS_RETAINED} AS is_retained FROM storage.objects
            WHERE repository_id = :repository_id AND oid > :after AND oid <= :last AND removed_at IS NULL
        ) AS judged
    ) AS held
""")  # noqa: S608 - our own names
_GARBAGE = text(f"""
    SELECT {RECORD_SQL} FROM storage.objects WHERE {_is_garbage(_IN_PAGE)} ORDER BY objects.oid
""")  # noqa: S608 - our own names
_RETURNING = text(f"""
    SELECT objects.oid FROM storage.objects WHERE {_is_returning(_IN_PAGE)} ORDER BY objects.oid
""")  # noqa: S608 - our own names
_HOLD = text("SELECT id FROM storage.collections WHERE id = :id AND NOT is_ended FOR SHARE")
_LOCK = text("""
    SELECT oid FROM storage.objects WHERE repository_id = :repository_id AND oid = ANY(CAST(:oids AS text[]))
    ORDER BY oid FOR UPDATE
""")
_TO_BIN = text(f"""
    UPDATE storage.objects
    SET removed_at = now(), removal_reason = :reason, removed_by = :removed_by, is_collected = true,
        bin_until = now() + CAST(:bin_for AS interval)
    WHERE {_is_garbage(_NAMED)}
    RETURNING objects.oid, objects.size
""")  # noqa: S608 - our own names
_FORGET = text(f"""
    DELETE FROM storage.objects WHERE {_is_garbage(_NAMED)}
    RETURNING objects.oid, objects.size
""")  # noqa: S608 - our own names
_TAKE_BACK = text(f"""
    UPDATE storage.objects
    SET removed_at = NULL, removal_reason = NULL, removed_by = NULL, bin_until = NULL, is_collected = false,
        used_at = now()
    WHERE {_is_returning(_NAMED)}
    RETURNING objects.oid
""")  # noqa: S608 - our own names
# The sweeper may do the same at the same time. An array, because Postgres may run a subquery after IN once for each row
# where its statistics are of a time when the table was empty.
_DROP_RETAINED = text("""
    DELETE FROM storage.retained_oids WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM storage.retained_oids WHERE collection_id = :id
        ORDER BY oid LIMIT :limit FOR UPDATE SKIP LOCKED
    ))
""")


async def begin(
    connection: AsyncConnection, repository_id: int, *, listed_ago: datetime.timedelta, grace: datetime.timedelta
) -> Collection:
    """Begin a collection that spares what was used since the listing began, or within the time of grace before that.

    A push that announced an object within that time may have changed its ref after the listing.
    """
    values = {"repository_id": repository_id, "listed_ago": listed_ago, "grace": grace}
    id_, unused_since = (await connection.execute(_OPEN, values)).one()
    return Collection(id_, repository_id, unused_since)


async def retain(connection: AsyncConnection, collection: Collection, oids: Sequence[str]) -> None:
    """Record oids as retained. Those of which the repository has no record are passed over, since nothing removes them.

    May be repeated.
    """
    values = {"id": collection.id, "repository_id": collection.repository_id, "oids": oids}
    await connection.execute(_RETAIN, values)


async def last_of_page(connection: AsyncConnection, repository_id: int, *, after: str) -> str | None:
    """Return the last oid of the page of the repository's records after the oid `after`; None after the last page."""
    last: str | None = await connection.scalar(_LAST, {"repository_id": repository_id, "after": after, "limit": PAGE})
    return last


async def tally(connection: AsyncConnection, collection: Collection, *, after: str, last: str) -> Tally:
    """Return the counts of a page."""
    row = (await connection.execute(_TALLY, {**collection._asdict(), "after": after, "last": last})).mappings().one()
    # Postgres' sums of bigint are numeric.
    values: dict[str, Any] = {k: int(v) if isinstance(v, Decimal) else v for k, v in row.items()}
    return Tally(**values)


async def garbage(connection: AsyncConnection, collection: Collection, *, after: str, last: str) -> list[Record]:
    """Return the garbage of a page, by oid."""
    return [
        Record(*row)
        for row in await connection.execute(_GARBAGE, {**collection._asdict(), "after": after, "last": last})
    ]


async def remove(
    connection: AsyncConnection,
    collection: Collection,
    oids: Sequence[str],
    *,
    reason: str,
    removed_by: str,
    bin_for: datetime.timedelta,
) -> dict[str, int]:
    """Remove those of these objects that still are garbage, and return their sizes by oid.

    They are in the bin for the time `bin_for`; without one, nothing is left of them. The caller must have locked the
    oids. Raises `Aborted` if what the collection retains is not known any more.
    """
    if (await connection.execute(_HOLD, {"id": collection.id})).first() is None:
        raise collection_ended()
    values = {**collection._asdict(), "oids": oids}
    await connection.execute(_LOCK, {"repository_id": collection.repository_id, "oids": oids})
    if bin_for:
        tombstone = {"reason": reason, "removed_by": removed_by, "bin_for": bin_for}
        rows = await connection.execute(_TO_BIN, {**values, **tombstone})
    else:
        rows = await connection.execute(_FORGET, values)
    return {row.oid: row.size for row in rows}


async def returning(connection: AsyncConnection, collection: Collection, *, after: str, last: str) -> list[str]:
    """Return the oids of the retained objects of a page that lie in the bin as garbage."""
    return list(await connection.scalars(_RETURNING, {**_ids(collection), "after": after, "last": last}))


async def take_back(connection: AsyncConnection, collection: Collection, oids: Sequence[str]) -> set[str]:
    """Hold those of these objects again that are retained and lie in the bin as garbage, and return them."""
    await connection.execute(_LOCK, {"repository_id": collection.repository_id, "oids": oids})
    return set(await connection.scalars(_TAKE_BACK, {**_ids(collection), "oids": oids}))


async def end(connection: AsyncConnection, collection_id: int) -> None:
    """Let a collection remove nothing any more, after waiting for what it is removing."""
    ended = update(CollectionRecord).where(col(CollectionRecord.id) == collection_id)
    await connection.execute(ended.values(is_ended=True))


async def drop_some(connection: AsyncConnection, collection_id: int) -> bool:
    """Delete some of what an ended collection retains, and at last its record; return whether something is left."""
    dropped = await connection.execute(_DROP_RETAINED, {"id": collection_id, "limit": PAGE})
    if dropped.rowcount:
        return True
    await connection.execute(delete(CollectionRecord).where(col(CollectionRecord.id) == collection_id))
    return False


async def left(connection: AsyncConnection) -> list[int]:
    """Return the ids of collections that have ended, or began so long ago that their processes must be gone."""
    is_old = col(CollectionRecord.created_at) < func.now() - _LEFT
    return list(
        await connection.scalars(select(col(CollectionRecord.id)).where(or_(is_old, col(CollectionRecord.is_ended))))
    )


def _ids(collection: Collection) -> dict[str, int]:
    return {"id": collection.id, "repository_id": collection.repository_id}
