"""Bytes that a store has lost."""

from collections.abc import Collection

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.observability.logs import get_logger
from services.storage.context import StorageContext
from services.storage.index import contents
from services.storage.index.contents import BlobLocation
from services.storage.metrics import OBJECTS_DOUBTED

_log = get_logger(__name__)


async def report_damage(
    context: StorageContext, found: Collection[BlobLocation], *, if_elsewhere: bool = False
) -> None:
    """Note bytes that are missing or damaged, so that others come there, from another store or from a client.

    With `if_elsewhere` nothing is noted of what no other store has.
    """
    if not found:
        return

    async def work(connection: AsyncConnection) -> int:
        return await contents.mark_damaged(connection, found, if_elsewhere=if_elsewhere)

    if count := await context.database.run(work):
        OBJECTS_DOUBTED.inc(count)
        _log.error("bytes are missing or damaged in a store", found=[name for _, name in found])
        context.copy_wanted.set()
