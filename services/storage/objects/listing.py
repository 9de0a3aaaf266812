"""Listing of a repository's objects in keyset pages."""

from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage.context import StorageContext
from services.storage.index import objects
from services.storage.index.objects import Record


async def list_objects(
    context: StorageContext, repository_id: int, *, cursor: str, limit: int
) -> tuple[list[Record], str]:
    """Return up to `limit` records by oid after the oid `cursor`, and the next cursor, empty on the last page."""

    async def work(connection: AsyncConnection) -> list[Record]:
        return await objects.page(connection, repository_id, after=cursor, limit=limit + 1)

    records = await context.database.run(work)
    page = records[:limit]
    return page, page[-1].oid if len(records) > limit else ""
