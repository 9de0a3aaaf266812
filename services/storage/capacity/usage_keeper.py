"""Background work on the counters of usage: one process at a time folds, records days and levels, and tidies up."""

import time
from typing import Never

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.concurrency.periodic import run_periodically
from services.database.transactions import Database
from services.storage.capacity.limits import LimitCache
from services.storage.capacity.quota import today
from services.storage.index import quota_levels, reservations, usage

INTERVAL_SECONDS = 5.0
_DAY_SECONDS = 600.0
# Bounds a transaction.
_BATCH = 10_000


class UsageKeeper:
    """Folds what triggers have counted into totals. Its owner runs `run`."""

    def __init__(self, database: Database, limits: LimitCache) -> None:
        self._database = database
        self._limits = limits
        self._recorded_at = float("-inf")
        self._had_quotas = False

    async def run(self) -> Never:
        """Fold about every five seconds, forever."""
        await run_periodically(self._turn, INTERVAL_SECONDS, trouble="the counters of usage are not folded")

    async def _turn(self) -> None:
        while await self._database.run(self._fold):
            pass
        # Once more after the last quota was taken away.
        if self._limits.has_quotas or self._had_quotas:
            self._had_quotas = self._limits.has_quotas
            await self._database.run(self._refresh)
        if time.monotonic() - self._recorded_at >= _DAY_SECONDS:
            await self._database.run(self._record_day)
            self._recorded_at = time.monotonic()

    async def _fold(self, connection: AsyncConnection) -> bool:
        return await usage.may_keep(connection) and await usage.fold(connection, limit=_BATCH) == _BATCH

    async def _refresh(self, connection: AsyncConnection) -> None:
        if await usage.may_keep(connection):
            await quota_levels.refresh(connection, default_quota=self._limits.default_quota)
            await reservations.delete_expired(connection, limit=_BATCH)

    async def _record_day(self, connection: AsyncConnection) -> None:
        if await usage.may_keep(connection):
            await usage.record_day(connection, today())
