"""What each store has of what repositories hold."""

from collections.abc import Mapping

from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage.context import StorageContext
from services.storage.index import store_table
from services.storage.index.store_table import ANYWHERE, StoreHoldings

_WINDOW = 100_000


async def holdings_of(context: StorageContext) -> Mapping[int, StoreHoldings]:
    """Return what each store has, and as that of `ANYWHERE` what some store has. It reads the whole index."""
    total = {ANYWHERE: StoreHoldings()}
    after = ""
    while True:

        async def work(connection: AsyncConnection, after: str = after) -> tuple[dict[int, StoreHoldings], str]:
            return await store_table.holdings(connection, after=after, limit=_WINDOW)

        found, after = await context.database.run(work)
        for store_id, holdings in found.items():
            total[store_id] = total.get(store_id, StoreHoldings()) + holdings
        if not after:
            return total
