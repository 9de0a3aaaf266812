"""Bytes that a store has lost, and another has."""

from collections.abc import Collection

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.logs import get_logger
from services.storage import contents
from services.storage.contents import Placed
from services.storage.metrics import OBJECTS_DOUBTED
from services.storage.store import Store

_log = get_logger(__name__)


async def doubt(store: Store, found: Collection[Placed]) -> None:
    """Note bytes that are missing or damaged, so that others are brought there from a store that has them."""
    if not found:
        return

    async def work(connection: AsyncConnection) -> int:
        return await contents.doubt(connection, found)

    if count := await store.database.run(work):
        OBJECTS_DOUBTED.inc(count)
        _log.error("bytes are missing or damaged in a store that another has", found=[name for _, name in found])
        store.copy_wanted.set()
