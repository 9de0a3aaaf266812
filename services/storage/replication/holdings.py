"""The holdings of each store: held objects of which it has an undamaged blob."""

from collections.abc import Mapping

from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage.context import StorageContext
from services.storage.index import store_table
from services.storage.index.store_table import ANYWHERE, StoreHoldings

_WINDOW = 100_000


async def holdings_of(context: StorageContext) -> Mapping[int, StoreHoldings]:
    """Return the holdings of each store, and under `ANYWHERE` those of at least one store; reads the whole index."""
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
