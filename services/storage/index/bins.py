"""SQL of the bins: removed objects whose bytes are kept. Each function runs in the transaction of its connection."""

from collections.abc import Sequence

from sqlalchemy import delete, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.index.contents import IS_KEPT, any_of
from services.storage.index.models import Content, Object
from services.storage.index.objects import IS_COLLECTED, RECORD, Record, record_of


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
        .values(
            removed_at=None,
            removal_reason=None,
            removed_by=None,
            bin_until=None,
            is_collected=False,
            # Otherwise the next collection would take it at once.
            used_at=func.now(),
        )
        .returning(*RECORD)
    )
    return record_of((await connection.execute(statement)).one_or_none())


async def end_in_bin(connection: AsyncConnection, repository_id: int, oid: str) -> Record | None:
    """Let the bytes of a removed object be kept no more, and return its tombstone; None if it was not removed.

    The tombstone of an object that was removed as garbage is deleted.
    """
    collected = (
        delete(Object)
        .where(col(Object.repository_id) == repository_id, col(Object.oid) == oid, IS_COLLECTED)
        .returning(*RECORD)
    )
    if (record := record_of((await connection.execute(collected)).one_or_none())) is not None:
        return record._replace(bin_until=None)
    statement = (
        update(Object)
        .where(col(Object.repository_id) == repository_id, col(Object.oid) == oid, col(Object.removed_at).is_not(None))
        .values(bin_until=None)
        .returning(*RECORD)
    )
    return record_of((await connection.execute(statement)).one_or_none())


async def due_in_bin(connection: AsyncConnection, *, limit: int) -> list[str]:
    """Return up to `limit` oids of objects whose time in a bin is over."""
    due = select(col(Object.oid)).where(col(Object.bin_until) <= func.now()).order_by(col(Object.bin_until))
    return list(await connection.scalars(due.limit(limit)))


async def end_due_in_bin(connection: AsyncConnection, oids: Sequence[str]) -> None:
    """Let the bytes of those of `oids` be kept no more whose time in a bin is over.

    Tombstones of objects that were removed as garbage are deleted.
    """
    due = col(Object.oid) == any_of(oids), col(Object.bin_until) <= func.now()
    await connection.execute(delete(Object).where(*due, IS_COLLECTED))
    await connection.execute(update(Object).where(*due).values(bin_until=None))


async def seconds_in_bin(connection: AsyncConnection) -> float | None:
    """Return the number of seconds until the time of the next object in a bin is over; None if there is none."""
    seconds = await connection.scalar(select(func.extract("epoch", func.min(col(Object.bin_until)) - func.now())))
    return None if seconds is None else max(0.0, float(seconds))


async def bytes_in_bins(connection: AsyncConnection) -> dict[int, int]:
    """Return the bytes in the bin of each repository; those whose bin is empty are missing. Reads the bins alone."""
    # In these words, because Postgres takes the partial index `objects_bin_until` only where they are its own.
    in_bin = col(Object.bin_until).is_not(None)
    statement = select(col(Object.repository_id), func.sum(col(Object.size))).where(in_bin)
    return {row[0]: int(row[1]) for row in await connection.execute(statement.group_by(col(Object.repository_id)))}


async def repositories_that_keep(connection: AsyncConnection, oid: str, *, limit: int) -> list[int]:
    """Return up to `limit` ids of repositories that hold an object, or have it in their bin, in ascending order."""
    statement = select(col(Object.repository_id)).where(col(Object.oid) == oid, IS_KEPT)
    return list(await connection.scalars(statement.order_by(col(Object.repository_id)).limit(limit)))
