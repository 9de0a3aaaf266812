"""SQL of the list of stores. Each function runs in the transaction of its connection."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import CTE, BigInteger, SmallInteger, delete, exists, func, literal, select, union_all, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.index import advisory_locks
from services.storage.index.advisory_locks import key
from services.storage.index.contents import ELSEWHERE, IS_KEPT, KEPT
from services.storage.index.models import Content, CopyRecord, Discard, Object, OngoingUpload, StoreRecord

ANYWHERE = 0
"""The key, which is no store's id, for the objects that at least one store has."""

_LAST = -1


class StoreListing(NamedTuple):
    """A store, and its record as a copy of another store, if it is a copy."""

    record: StoreRecord
    copy: CopyRecord | None


class Held(NamedTuple):
    """An object that some repository holds."""

    oid: str
    size: int


async def list_stores(connection: AsyncConnection) -> list[StoreListing]:
    """Return all stores, sorted by name."""
    stores = (await connection.execute(select(StoreRecord).order_by(col(StoreRecord.name)))).mappings().all()
    copies = {row["to_id"]: CopyRecord(**row) for row in (await connection.execute(select(CopyRecord))).mappings()}
    return [StoreListing(StoreRecord(**row), copies.get(row["id"])) for row in stores]


async def lock_list(connection: AsyncConnection) -> None:
    """Prevent other transactions from changing the list until this transaction ends."""
    await connection.execute(select(func.pg_advisory_xact_lock(key("stores"))))


async def find(connection: AsyncConnection, name: str) -> StoreRecord | None:
    """Return the store of that name; None if there is none."""
    row = (await connection.execute(select(StoreRecord).where(col(StoreRecord.name) == name))).mappings().one_or_none()
    return None if row is None else StoreRecord(**row)


async def add(connection: AsyncConnection, name: str, url: str) -> None:
    """Add a store, unless there is a store of that name or URL."""
    new = postgresql.insert(StoreRecord).values(name=name, url=url, is_primary=False)
    await connection.execute(new.on_conflict_do_nothing())


async def start_copy(
    connection: AsyncConnection, from_id: int, to_id: int, *, parallel: int, bytes_per_second: int | None
) -> None:
    """Make a store a copy of another, or change the terms of the copying."""
    new = postgresql.insert(CopyRecord).values(
        from_id=from_id, to_id=to_id, parallel=parallel, bytes_per_second=bytes_per_second, problem=""
    )
    changed = {name: new.excluded[name] for name in ("from_id", "parallel", "bytes_per_second", "problem")}
    await connection.execute(new.on_conflict_do_update(index_elements=["to_id"], set_=changed))


async def stop_copy(connection: AsyncConnection, to_id: int) -> None:
    """Make a store no copy any more."""
    await connection.execute(delete(CopyRecord).where(col(CopyRecord.to_id) == to_id))


async def note_problem(connection: AsyncConnection, to_id: int, problem: str) -> None:
    """Record the problem of a copy; an empty text clears it."""
    statement = update(CopyRecord).where(col(CopyRecord.to_id) == to_id, col(CopyRecord.problem) != problem)
    await connection.execute(statement.values(problem=problem))


async def set_primary(connection: AsyncConnection, store_id: int) -> None:
    """Make a store the primary, and therefore no copy any more."""
    await stop_copy(connection, store_id)
    # In two statements, because the unique index never allows two primaries.
    await connection.execute(update(StoreRecord).where(col(StoreRecord.id) != store_id).values(is_primary=False))
    await connection.execute(update(StoreRecord).where(col(StoreRecord.id) == store_id).values(is_primary=True))


def _held(after: str, limit: int) -> CTE:
    """Return a keyset page of objects held or in a bin by oid, which bounds the work for an index of any size."""
    statement = (
        select(col(Object.oid), func.max(col(Object.size)).label("size"))
        .where(IS_KEPT, col(Object.oid) > after)
        .group_by(col(Object.oid))
        .order_by(col(Object.oid))
        .limit(limit)
    )
    return statement.cte("held")


async def lacking(connection: AsyncConnection, store_id: int, *, after: str, limit: int) -> tuple[list[Held], str]:
    """Examine the keyset page of the next `limit` held objects by oid after `after`.

    Return the objects that this store lacks and another store has, and the last oid of the page, "" for an empty page.
    """
    held = _held(after, limit)
    good = exists().where(col(Content.oid) == held.c.oid, ~col(Content.is_doubted))
    its = col(Content.store_id) == store_id
    found = select(held.c.oid, held.c.size).where(~good.where(its), good.where(~its))
    last = select(func.coalesce(func.max(held.c.oid), ""), literal(_LAST, BigInteger))
    rows = [Held(*row) for row in await connection.execute(union_all(found, last))]
    [end] = [row.oid for row in rows if row.size == _LAST]
    return sorted(row for row in rows if row.size != _LAST), end


@dataclass(frozen=True)
class StoreHoldings:
    """The number of objects in a store, and of their bytes."""

    objects: int = 0
    bytes: int = 0

    def __add__(self, other: "StoreHoldings") -> "StoreHoldings":
        """Return the sum of both."""
        return StoreHoldings(self.objects + other.objects, self.bytes + other.bytes)


async def holdings(connection: AsyncConnection, *, after: str, limit: int) -> tuple[dict[int, StoreHoldings], str]:
    """Count the keyset page of the next `limit` held objects by oid after `after`.

    Return the holdings of each store, under `ANYWHERE` those of at least one store, and the last oid of the page, ""
    for an empty page.
    """
    held = _held(after, limit)
    good = ~col(Content.is_doubted)
    of_each_store = (
        select(col(Content.store_id), func.count(), func.sum(held.c.size), literal(""))
        .join(held, held.c.oid == col(Content.oid))
        .where(good)
        .group_by(col(Content.store_id))
    )
    is_anywhere = exists().where(col(Content.oid) == held.c.oid, good)
    counted = func.count().filter(is_anywhere)
    summed = func.coalesce(func.sum(held.c.size).filter(is_anywhere), 0)
    last = func.coalesce(func.max(held.c.oid), "")
    anywhere = select(literal(ANYWHERE, SmallInteger), counted, summed, last).select_from(held)
    found, end = {}, ""
    for store_id, count, size, last_oid in await connection.execute(union_all(of_each_store, anywhere)):
        found[store_id] = StoreHoldings(count, int(size))
        end = end or last_oid
    return found, end


async def hold_uploads(connection: AsyncConnection, store_id: int) -> None:
    """Prevent new direct uploads to a store, and all commits to it, until the transaction ends."""
    await connection.execute(select(func.pg_advisory_xact_lock(key(advisory_locks.store_key(store_id)))))


async def has_uploads(connection: AsyncConnection, store_id: int) -> bool:
    """Return whether uploads to a store are pending, or clients may still upload directly to it."""
    ongoing = exists().where(
        col(OngoingUpload.store_id) == store_id,
        func.coalesce(col(OngoingUpload.expires_at) > func.now(), literal(True)),
    )
    return bool(await connection.scalar(select(ongoing)))


async def has_alone(connection: AsyncConnection, store_id: int) -> bool:
    """Return whether a store has a blob of a held object of which no other store has an undamaged blob."""
    alone = exists().where(col(Content.store_id) == store_id, ~ELSEWHERE, KEPT)
    return bool(await connection.scalar(select(alone)))


async def is_copied(connection: AsyncConnection, store_id: int) -> bool:
    """Return whether another store is a copy of this store."""
    return bool(await connection.scalar(select(exists().where(col(CopyRecord.from_id) == store_id))))


async def release_store_rows(connection: AsyncConnection, store_id: int, *, limit: int) -> int:
    """Forget a store's blobs of up to `limit` objects that another store has; return their number."""
    some = select(col(Content.oid)).where(col(Content.store_id) == store_id, ELSEWHERE).limit(limit)
    gone = delete(Content).where(col(Content.store_id) == store_id, col(Content.oid).in_(some.scalar_subquery()))
    return (await connection.execute(gone)).rowcount


async def forget(connection: AsyncConnection, store_id: int) -> None:
    """Delete a store from the list, and all rows about its blobs."""
    tables: Sequence[type[OngoingUpload | Content | Discard]] = (OngoingUpload, Content, Discard)
    for table in tables:
        await connection.execute(delete(table).where(col(table.store_id) == store_id))
    await connection.execute(delete(StoreRecord).where(col(StoreRecord.id) == store_id))
