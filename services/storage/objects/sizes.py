"""How much every repository holds, and how much more there is room for, as the metrics tell it."""

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage import metrics
from services.storage.context import StorageContext
from services.storage.index.models import Object


async def refresh_sizes(context: StorageContext) -> None:
    """Bring the metrics up to date. Raises what the database and the backend raise."""
    available = await context.space.available_bytes()
    metrics.AVAILABLE_BYTES.replace({} if available is None else {(): available})
    sizes = await context.database.run(_sizes)
    metrics.REPOSITORY_OBJECTS.replace({(str(id_),): count for id_, count, _ in sizes})
    metrics.REPOSITORY_BYTES.replace({(str(id_),): count for id_, _, count in sizes})


async def _sizes(connection: AsyncConnection) -> Sequence[tuple[int, int, int]]:
    statement = (
        select(col(Object.repository_id), func.count(), func.sum(col(Object.size)))
        .where(col(Object.removed_at).is_(None))
        .group_by(col(Object.repository_id))
    )
    return [(id_, objects, int(size)) for id_, objects, size in await connection.execute(statement)]
