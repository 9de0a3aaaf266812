"""Prometheus metrics of a service's connections to Postgres."""

from typing import cast

from prometheus_client import Counter, Gauge
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import QueuePool

from services.database.held_connections import HeldConnections

RETRIES = Counter("towpath_database_retries_total", "Transactions that were run again, after an outage or a lost race.")

_CONNECTIONS = Gauge("towpath_database_connections", "Open connections to Postgres.", ["state"])
_POOL_SIZE = Gauge("towpath_database_pool_size", "The most connections to Postgres that are open at once.")


def watch_pool(engine: AsyncEngine, held: HeldConnections) -> None:
    """Report the pool of this engine from now on, with its held connections, instead of an earlier pool."""

    def pool() -> QueuePool:
        # Read at each scrape, because an engine that is disposed of gets a new pool.
        return cast("QueuePool", engine.sync_engine.pool)

    _CONNECTIONS.labels("in_use").set_function(lambda: pool().checkedout() - held.idle)
    _CONNECTIONS.labels("idle").set_function(lambda: pool().checkedin() + held.idle)
    _POOL_SIZE.set_function(lambda: pool().size())
