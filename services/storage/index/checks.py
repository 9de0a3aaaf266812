"""SQL of the checks of blobs. Each function runs in the transaction of its connection."""

import datetime
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.index.contents import IS_KEPT, KEPT
from services.storage.index.models import Content, Object, StoreRecord


class BlobToCheck(NamedTuple):
    """A blob that is due to be checked, and what its bytes must be."""

    oid: str
    name: str
    size: int
    is_overdue: bool
    """True if the last check is twice as long ago as it should be."""


async def due(
    connection: AsyncConnection, store_id: int, *, age: datetime.timedelta, skipping: Sequence[str], limit: int
) -> list[BlobToCheck]:
    """Return up to `limit` blobs of a store whose last check is at least `age` ago, the oldest check first.

    Blobs that are known to be damaged, that no repository needs, and the names in `skipping`, are left out.
    """
    size = select(func.max(col(Object.size))).where(col(Object.oid) == col(Content.oid), IS_KEPT).scalar_subquery()
    statement = (
        select(
            col(Content.oid),
            col(Content.name),
            size,
            col(Content.checked_at) <= func.now() - 2 * age,
        )
        .where(
            col(Content.store_id) == store_id,
            ~col(Content.is_doubted),
            col(Content.checked_at) <= func.now() - age,
            col(Content.name).not_in(skipping),
            KEPT,
        )
        .order_by(col(Content.checked_at))
        .limit(limit)
    )
    return [BlobToCheck(*row) for row in await connection.execute(statement)]


async def mark_checked(connection: AsyncConnection, store_id: int, blob: BlobToCheck) -> None:
    """Record that a blob of a store has just been found right."""
    statement = update(Content).where(
        col(Content.store_id) == store_id, col(Content.oid) == blob.oid, col(Content.name) == blob.name
    )
    await connection.execute(statement.values(checked_at=func.now()))


async def oldest(connection: AsyncConnection) -> dict[int, datetime.datetime]:
    """Return the time of the oldest check in each store that has undamaged blobs, by the store's id."""
    of_store = (
        select(func.min(col(Content.checked_at)))
        .where(col(Content.store_id) == col(StoreRecord.id), ~col(Content.is_doubted))
        .scalar_subquery()
    )
    rows = await connection.execute(select(col(StoreRecord.id), of_store).where(of_store.is_not(None)))
    return {row[0]: row[1] for row in rows}
