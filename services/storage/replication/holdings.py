"""What each store has of what repositories hold."""

from collections.abc import Mapping

from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage.context import Store
from services.storage.index import stores
from services.storage.index.stores import ANYWHERE, Holdings

_WINDOW = 100_000


async def holdings_of(store: Store) -> Mapping[int, Holdings]:
    """Return what each store has, and as that of `ANYWHERE` what some store has. It reads the whole index."""
    total = {ANYWHERE: Holdings()}
    after = ""
    while True:

        async def work(connection: AsyncConnection, after: str = after) -> tuple[dict[int, Holdings], str]:
            return await stores.holdings(connection, after=after, limit=_WINDOW)

        found, after = await store.database.run(work)
        for store_id, holdings in found.items():
            total[store_id] = total.get(store_id, Holdings()) + holdings
        if not after:
            return total
