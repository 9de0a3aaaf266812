"""How much repositories hold and have moved."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ARRAY, BigInteger, any_, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.capacity.quota import Transferred
from services.storage.context import StorageContext
from services.storage.index.models import Object


@dataclass(frozen=True)
class Holdings:
    """What a repository holds: objects, their bytes, and how many were removed."""

    object_count: int = 0
    object_bytes: int = 0
    removed_count: int = 0


async def usage_of(context: StorageContext, repository_ids: Sequence[int]) -> list[tuple[Holdings, Transferred]]:
    """Return what each of the repositories holds and has moved today, in order."""

    async def work(connection: AsyncConnection) -> dict[int, Holdings]:
        held = col(Object.removed_at).is_(None)
        statement = (
            select(
                col(Object.repository_id),
                func.count().filter(held),
                func.coalesce(func.sum(col(Object.size)).filter(held), 0),
                func.count().filter(~held),
            )
            .where(col(Object.repository_id) == any_(cast(list(repository_ids), ARRAY(BigInteger))))
            .group_by(col(Object.repository_id))
        )
        rows = await connection.execute(statement)
        return {row[0]: Holdings(row[1], int(row[2]), row[3]) for row in rows}

    holdings = await context.database.run(work)
    moved = await context.quota.transferred_today(repository_ids)
    return [(holdings.get(id_, Holdings()), moved.get(id_, Transferred())) for id_ in repository_ids]
