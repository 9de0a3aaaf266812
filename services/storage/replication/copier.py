"""Bringing to the primary, and to its copies, what they lack: bytes that were lost, or were only written elsewhere.

What is there is what `contents` says, so a copier that was killed goes on where it was.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.concurrency.periodic import run_periodically
from services.common.errors import ServiceError
from services.common.observability.logs import get_logger
from services.storage.context import StorageContext
from services.storage.index import store_table
from services.storage.index.advisory_locks import key
from services.storage.replication.copy_object import bring
from services.storage.replication.rate_limit import RateLimiter
from services.storage.stores.registry import Copy

PARALLEL_DEFAULT = 4

_PAGE = 2000
_INTERVAL_SECONDS = 1.0
_AGAIN_SECONDS = 5.0
_TURN_SECONDS = 10.0
# What takes long is done the more seldom: a look through the index takes at most so much of the time.
_MAX_SHARE_OF_TIME = 0.1

_ALONE = key("copier")

_log = get_logger(__name__)


class Copier:
    """Copies as long as a store lacks anything. Its owner runs `run`; of all processes one does the work at a time."""

    def __init__(self, context: StorageContext) -> None:
        self._context = context
        self._paces: dict[int, RateLimiter] = {}
        self._seen: dict[int, str] = {}
        """Up to which oid the index was looked through for a store in its last turn."""

    async def run(self) -> None:
        """Copy, for ever."""
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
        async with self._alone() as is_alone:
            return await self._round() if is_alone else _AGAIN_SECONDS

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[bool]:
        """Tell whether this process is the one that copies; the others look again later."""
        async with self._context.database.engine.connect() as connection:
            # A transaction that stays open would keep Postgres from cleaning up.
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            try:
                yield bool(await connection.scalar(select(func.pg_try_advisory_lock(_ALONE))))
                await connection.execute(select(func.pg_advisory_unlock_all()))
            except BaseException:
                # The lock goes with the session; the pool would keep both.
                await connection.invalidate()
                raise

    async def _round(self) -> float:
        """Look through the index once for each store; return after how many seconds to look again."""
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
        """Bring a store what it lacks, until that fails, or others have waited long enough for their turn."""
        result = _Result(asyncio.get_running_loop().time() + _TURN_SECONDS)
        after = self._seen.pop(copy.store.id, "")
        while self._goes_on(copy, result):
            page, last = await self._lacking(copy, after)
            if not last:
                result.is_through = True
                break
            await self._bring_all(copy, page, result)
            if self._goes_on(copy, result):
                after = last
        if not result.is_through:
            self._seen[copy.store.id] = after
        problem = result.problem
        await self._context.database.run(
            lambda connection: store_table.note_problem(connection, copy.store.id, problem)
        )
        if problem:
            _log.warning("a store cannot be filled", store=copy.store.name, why=problem)
        return result

    async def _lacking(self, copy: Copy, after: str) -> tuple[list[store_table.Held], str]:
        async def work(connection: AsyncConnection) -> tuple[list[store_table.Held], str]:
            return await store_table.lacking(connection, copy.store.id, after=after, limit=_PAGE)

        return await self._context.database.run(work)

    def _goes_on(self, copy: Copy, result: "_Result") -> bool:
        """Tell whether the store is still to be filled, in this way and in this turn."""
        stores = self._context.stores
        is_wanted = copy.store is stores.primary or copy in stores.copies
        # After a failure the others would fail as well, each after its deadline.
        return is_wanted and not result.has_failed and asyncio.get_running_loop().time() < result.ends_at

    async def _bring_all(self, copy: Copy, page: list[store_table.Held], result: "_Result") -> None:
        free = asyncio.Semaphore(copy.parallel)
        pace = self._pace(copy)

        async def bring_one(held: store_table.Held) -> None:
            async with free:
                if not self._goes_on(copy, result):
                    return
                try:
                    if await bring(self._context, held, copy.store, first=copy.from_id, pace=pace):
                        result.brought += 1
                    else:
                        result.problem = f"no store has the bytes of object {held.oid} as they were written"
                except (ServiceError, OSError) as error:
                    result.has_failed = True
                    result.problem = str(error) or type(error).__name__

        async with asyncio.TaskGroup() as group:
            for held in page:
                group.create_task(bring_one(held))

    def _pace(self, copy: Copy) -> RateLimiter:
        """Return what all copying to a store keeps to."""
        pace = self._paces.get(copy.store.id)
        if pace is None or pace.rate != copy.bytes_per_second:
            pace = self._paces[copy.store.id] = RateLimiter(copy.bytes_per_second)
        return pace


@dataclass
class _Result:
    """What became of filling a store: how many objects were brought, and what went wrong at last."""

    ends_at: float
    brought: int = 0
    is_through: bool = False
    """Whether the index was looked through to its end."""
    has_failed: bool = False
    problem: str = ""
