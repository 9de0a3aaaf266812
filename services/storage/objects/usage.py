"""The usage of repositories, held objects and traffic, for callers and for the metrics."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ARRAY, BigInteger, any_, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage import metrics
from services.storage.capacity.quota import Transferred
from services.storage.context import StorageContext
from services.storage.index.contents import IS_KEPT
from services.storage.index.models import Object


@dataclass(frozen=True)
class Holdings:
    """The number of objects that a repository holds, their bytes, its tombstones, and what its bin keeps of them."""

    object_count: int = 0
    object_bytes: int = 0
    removed_count: int = 0
    bin_count: int = 0
    bin_bytes: int = 0


async def usage_of(context: StorageContext, repository_ids: Sequence[int]) -> list[tuple[Holdings, Transferred]]:
    """Return what each of the repositories holds and has transferred today, in order."""

    async def work(connection: AsyncConnection) -> dict[int, Holdings]:
        held, in_bin = col(Object.removed_at).is_(None), col(Object.bin_until).is_not(None)
        statement = (
            select(
                col(Object.repository_id),
                func.count().filter(held),
                func.coalesce(func.sum(col(Object.size)).filter(held), 0),
                func.count().filter(~held),
                func.count().filter(in_bin),
                func.coalesce(func.sum(col(Object.size)).filter(in_bin), 0),
            )
            .where(col(Object.repository_id) == any_(cast(list(repository_ids), ARRAY(BigInteger))))
            .group_by(col(Object.repository_id))
        )
        rows = await connection.execute(statement)
        return {row[0]: Holdings(row[1], int(row[2]), row[3], row[4], int(row[5])) for row in rows}

    holdings = await context.database.run(work)
    moved = await context.quota.transferred_today(repository_ids)
    return [(holdings.get(id_, Holdings()), moved.get(id_, Transferred())) for id_ in repository_ids]


async def refresh_sizes(context: StorageContext) -> None:
    """Refresh the metrics of usage and free space. Raises what the database and the backend raise."""
    available = await context.space.available_bytes()
    metrics.AVAILABLE_BYTES.replace({} if available is None else {(): available})
    sizes = await context.database.run(_sizes)
    metrics.REPOSITORY_OBJECTS.replace({(str(id_),): count for id_, count, _, _ in sizes})
    metrics.REPOSITORY_BYTES.replace({(str(id_),): count for id_, _, count, _ in sizes})
    metrics.REPOSITORY_BIN_BYTES.replace({(str(id_),): count for id_, _, _, count in sizes})


async def _sizes(connection: AsyncConnection) -> Sequence[tuple[int, int, int, int]]:
    held = col(Object.removed_at).is_(None)
    statement = (
        select(
            col(Object.repository_id),
            func.count().filter(held),
            func.coalesce(func.sum(col(Object.size)).filter(held), 0),
            func.coalesce(func.sum(col(Object.size)).filter(~held), 0),
        )
        .where(IS_KEPT)
        .group_by(col(Object.repository_id))
    )
    return [(id_, count, int(held), int(in_bin)) for id_, count, held, in_bin in await connection.execute(statement)]
