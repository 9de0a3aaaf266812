"""The copier: fills the primary, and its copies, with blobs that were lost or were only written to another store.

`contents` says which blobs a store has, so a copier continues after a crash where it was killed.
"""

import asyncio
from dataclasses import dataclass
from functools import partial

from services.common.concurrency.periodic import run_periodically
from services.common.errors import ServiceError
from services.common.observability.logs import get_logger
from services.storage.context import StorageContext
from services.storage.index import store_table
from services.storage.index.advisory_locks import held_alone
from services.storage.replication.copy_object import bring
from services.storage.replication.rate_limit import RateLimiter
from services.storage.stores.registry import Copy

PARALLEL_DEFAULT = 4

_PAGE = 2000
_INTERVAL_SECONDS = 1.0
_AGAIN_SECONDS = 5.0
_TURN_SECONDS = 10.0
# Scans of the index take at most this share of the time: the longer a scan takes, the later the next one starts.
_MAX_SHARE_OF_TIME = 0.1

_log = get_logger(__name__)


class Copier:
    """Copies blobs that a store lacks. Its owner runs `run`; only one process at a time does the work."""

    def __init__(self, context: StorageContext) -> None:
        self._context = context
        self._rate_limiters: dict[int, RateLimiter] = {}
        self._seen: dict[int, str] = {}
        """The cursor of each store's scan of the index: the last oid of its last turn."""

    async def run(self) -> None:
        """Copy, forever."""
        await run_periodically(
            self._copy,
            _INTERVAL_SECONDS,
            trouble="copying between stores has stopped",
            retry_seconds=_AGAIN_SECONDS,
            wake=self._context.copy_wanted.wait,
        )

    async def _copy(self) -> float:
        self._context.copy_wanted.clear()
        if len(self._context.stores.all) == 1:
            return _INTERVAL_SECONDS
        async with held_alone(self._context.database.engine, "copier") as is_alone:
            return await self._round() if is_alone else _AGAIN_SECONDS

    async def _round(self) -> float:
        """Scan the index once for each store; return the number of seconds until the next scan."""
        began = asyncio.get_running_loop().time()
        stores = self._context.stores
        results = [
            await self._fill(copy)
            for copy in (Copy(stores.primary, stores.primary.id, PARALLEL_DEFAULT, None), *stores.copies)
        ]
        if any(result.has_failed for result in results):
            return _AGAIN_SECONDS
        if any(result.brought or not result.is_through for result in results):
            return 0.0
        return max(_INTERVAL_SECONDS, (asyncio.get_running_loop().time() - began) / _MAX_SHARE_OF_TIME)

    async def _fill(self, copy: Copy) -> "_Result":
        """Copy to a store what it lacks, until a copy fails, or until the turn ends in favor of other stores."""
        result = _Result(asyncio.get_running_loop().time() + _TURN_SECONDS)
        after = self._seen.pop(copy.store.id, "")
        while self._goes_on(copy, result):
            page, last = await self._context.database.run(
                partial(store_table.lacking, store_id=copy.store.id, after=after, limit=_PAGE)
            )
            if not last:
                result.is_through = True
                break
            await self._bring_all(copy, page, result)
            if self._goes_on(copy, result):
                after = last
        if not result.is_through:
            self._seen[copy.store.id] = after
        await self._context.database.run(partial(store_table.note_problem, to_id=copy.store.id, problem=result.problem))
        if result.problem:
            _log.warning("a store cannot be filled", store=copy.store.name, why=result.problem)
        return result

    def _goes_on(self, copy: Copy, result: "_Result") -> bool:
        """Return whether the store is still to be filled, on these terms and in this turn."""
        stores = self._context.stores
        is_wanted = copy.store is stores.primary or copy in stores.copies
        # After a failure the other objects would fail as well, each after its deadline.
        return is_wanted and not result.has_failed and asyncio.get_running_loop().time() < result.ends_at

    async def _bring_all(self, copy: Copy, page: list[store_table.Held], result: "_Result") -> None:
        free = asyncio.Semaphore(copy.parallel)
        rate_limiter = self._rate_limiter_of(copy)

        async def bring_one(held: store_table.Held) -> None:
            async with free:
                if not self._goes_on(copy, result):
                    return
                try:
                    if await bring(self._context, held, copy.store, first=copy.from_id, rate_limiter=rate_limiter):
                        result.brought += 1
                    else:
                        result.problem = f"no store has the bytes of object {held.oid} as they were written"
                except (ServiceError, OSError) as error:
                    result.has_failed = True
                    result.problem = str(error) or type(error).__name__

        async with asyncio.TaskGroup() as group:
            for held in page:
                group.create_task(bring_one(held))

    def _rate_limiter_of(self, copy: Copy) -> RateLimiter:
        """Return the rate limiter that all copying to a store shares."""
        rate_limiter = self._rate_limiters.get(copy.store.id)
        if rate_limiter is None or rate_limiter.rate != copy.bytes_per_second:
            rate_limiter = self._rate_limiters[copy.store.id] = RateLimiter(copy.bytes_per_second)
        return rate_limiter


@dataclass
class _Result:
    """The result of a store's turn: the number of objects that were copied, and the last problem."""

    ends_at: float
    brought: int = 0
    is_through: bool = False
    """True if the scan has reached the end of the index."""
    has_failed: bool = False
    problem: str = ""
