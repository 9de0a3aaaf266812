"""The scrubber: reads every blob back in time, and reports those that are not what was uploaded.

One process at a time scrubs, each store by itself, the oldest check first. It takes at most a tenth of the time of a
disk, and waits while clients move many bytes, unless a blob would be checked too late.
"""

import asyncio
import datetime
from functools import partial
from typing import Never

from services.common.concurrency.periodic import run_periodically
from services.common.errors import InvalidArgument, Unavailable
from services.common.observability.logs import get_logger
from services.storage import metrics
from services.storage.backends.base import BytesMissing
from services.storage.context import StorageContext
from services.storage.index import checks
from services.storage.index.advisory_locks import held_alone
from services.storage.index.checks import BlobToCheck
from services.storage.index.contents import BlobLocation
from services.storage.index.store_table import StoreHoldings
from services.storage.objects.damage import report_damage
from services.storage.replication.rate_limit import RateLimiter
from services.storage.replication.store_admin import holdings_of
from services.storage.stores.registry import Store
from services.storage.uploads.checksum import ChecksumVerifier

_DAY_SECONDS = 24 * 3600.0
_INTERVAL_SECONDS = 60.0
_MIN_INTERVAL_SECONDS = 1.0
_TURN_SECONDS = 30.0
_PAGE = 50
_MIN_RATE = 1024 * 1024
_SIZES_SECONDS = 6 * 3600.0
_SKIPPED_SECONDS = 3600.0
_MAX_SKIPPED = 1_000
_WINDOW_BYTES = 8 * 1024 * 1024
# A disk is read for at most this share of the time.
_MAX_SHARE_OF_TIME = 0.1
_BUSY_BYTES_PER_SECOND = 16 * 1024 * 1024
_CALM_SECONDS = 1.0

_log = get_logger(__name__)


class Scrubber:
    """Reads every blob of every store at least once in `days`, at `rate` bytes a second. Its owner runs `run`.

    Without a rate, it is twice what the bytes of the store need, but at least 1 MiB a second. A blob is read again half
    the days after its last check at the earliest.
    """

    def __init__(self, context: StorageContext, *, days: float, rate: int | None) -> None:
        self._context = context
        self._period = datetime.timedelta(days=days)
        self._rate = rate
        self._limiters: dict[int, RateLimiter] = {}
        self._skipped: dict[str, float] = {}
        self._sizes: dict[int, StoreHoldings] = {}
        self._sized_at = float("-inf")
        self._seen_bytes = 0

    async def run(self) -> Never:
        """Scrub, forever; with 0 days, wait forever."""
        if not self._period:
            await asyncio.Event().wait()
        await run_periodically(self._turn, _INTERVAL_SECONDS, trouble="scrubbing has stopped")

    async def _turn(self) -> float:
        async with held_alone(self._context.database.engine, "scrubber") as is_alone:
            if not is_alone:
                return _INTERVAL_SECONDS
            await self._refresh_rates()
            async with asyncio.TaskGroup() as group:
                scrubbed = [group.create_task(self._scrub(store)) for store in self._context.stores.all]
        await self._refresh_metrics()
        found_any = any(task.result() for task in scrubbed)
        # A short period, as for a test, is one in which a blob is due soon.
        return 0.0 if found_any else min(_INTERVAL_SECONDS, max(_MIN_INTERVAL_SECONDS, self._age.total_seconds() / 4))

    @property
    def _age(self) -> datetime.timedelta:
        return self._period / 2

    async def _refresh_rates(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._rate is None and now - self._sized_at > _SIZES_SECONDS:
            self._sizes = dict(await holdings_of(self._context))
            self._sized_at = now
        for store in self._context.stores.all:
            needed = self._sizes.get(store.id, StoreHoldings()).bytes / self._age.total_seconds()
            rate = self._rate or max(_MIN_RATE, int(needed))
            limiter = self._limiters.setdefault(store.id, RateLimiter(rate))
            limiter.rate = rate

    async def _refresh_metrics(self) -> None:
        oldest = await self._context.database.run(checks.oldest)
        names = {store.id: store.name for store in self._context.stores.all}
        metrics.STORE_OLDEST_CHECK.replace(
            {(names[store_id],): at.timestamp() for store_id, at in oldest.items() if store_id in names}
        )

    async def _scrub(self, store: Store) -> bool:
        """Check blobs of a store until none is due, one cannot be read, or the turn is over; return whether any was."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + _TURN_SECONDS
        found_any = False
        while loop.time() < ends_at:
            self._skipped = {name: until for name, until in self._skipped.items() if until > loop.time()}
            blobs = await self._context.database.run(
                partial(checks.due, store_id=store.id, age=self._age, skipping=list(self._skipped), limit=_PAGE)
            )
            if not blobs:
                return found_any
            found_any = True
            for blob in blobs:
                await self._wait_for_calm(blob)
                if not await self._check(store, blob):
                    return False
                if loop.time() >= ends_at:
                    break
        return found_any

    async def _check(self, store: Store, blob: BlobToCheck) -> bool:
        """Read a blob and record what it is; return False if the store does not tell."""
        try:
            await self._read(store, blob)
        except (BytesMissing, InvalidArgument):
            await report_damage(self._context, [BlobLocation(store.id, blob.name)])
        except (Unavailable, OSError) as error:
            # Others are checked next: one bad sector must not stop all checks.
            if len(self._skipped) < _MAX_SKIPPED:
                self._skipped[blob.name] = asyncio.get_running_loop().time() + _SKIPPED_SECONDS
            _log.warning("a blob cannot be checked", store=store.name, name=blob.name, error=repr(error))
            return False
        else:
            await self._context.database.run(partial(checks.mark_checked, store_id=store.id, blob=blob))
        return True

    async def _read(self, store: Store, blob: BlobToCheck) -> None:
        """Raise `BytesMissing` or `InvalidArgument` unless the blob is the object; see `Backend` for other errors."""
        loop, limiter = asyncio.get_running_loop(), self._limiters[store.id]
        tally = ChecksumVerifier(blob.oid, blob.size)
        began = loop.time()
        async with store.backend.open(blob.name) as stored:
            if stored.size != blob.size:
                raise BytesMissing(f"{stored.size} bytes are there, expected {blob.size}")
            # In windows, because a bucket ends an answer that is read slowly.
            for offset in range(0, blob.size, _WINDOW_BYTES):
                length = min(_WINDOW_BYTES, blob.size - offset)
                async for chunk in stored.chunks(offset, length):
                    tally.count(chunk)
                    await tally.hash(chunk)
                read_at = loop.time()
                await limiter.acquire(length)
                await asyncio.sleep((read_at - began) / _MAX_SHARE_OF_TIME - (loop.time() - began))
                metrics.count_scrubbed(store.name, length)
                began = loop.time()
        tally.finish()

    async def _wait_for_calm(self, blob: BlobToCheck) -> None:
        """Wait while clients move many bytes, unless the blob is overdue."""
        quota = self._context.quota
        while not blob.is_overdue:
            before = quota.moved_bytes
            if before == self._seen_bytes:
                return
            self._seen_bytes = before
            await asyncio.sleep(_CALM_SECONDS)
            if quota.moved_bytes - before < _BUSY_BYTES_PER_SECOND * _CALM_SECONDS:
                return
