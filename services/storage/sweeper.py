"""The sweeper: empties the bins, and deletes what killed processes left, and blobs to which nothing refers any more."""

import asyncio
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.concurrency.periodic import run_periodically
from services.common.observability.logs import get_logger
from services.storage.context import StorageContext
from services.storage.direct.unconfirmed import give_up_expired
from services.storage.garbage.collect import drop_left_collections
from services.storage.index import contents, objects, partial_uploads
from services.storage.index.contents import BlobLocation
from services.storage.index.writer_lease import is_expired
from services.storage.metrics import PARTIAL_UPLOADS_GIVEN_UP
from services.storage.objects.bin import empty_bins
from services.storage.stores.registry import Store

_INTERVAL_SECONDS = 3600.0
_HELD_BACK_SECONDS = 10.0
_RETRY_SECONDS = 5.0
_DOUBT_SECONDS = 5.0
_BATCH = 100
_MAX_CONCURRENCY = 8

_log = get_logger(__name__)


class Sweeper:
    """Sweeps at start, when `sweep_wanted` is set, when a bin or blob is due, and every hour. Its owner runs `run`."""

    def __init__(self, context: StorageContext) -> None:
        self._context = context
        self._odd: set[str] = set()

    async def run(self) -> None:
        """Sweep, forever."""
        await run_periodically(
            self._sweep,
            _INTERVAL_SECONDS,
            trouble="sweep failed",
            retry_seconds=_RETRY_SECONDS,
            with_traceback=True,
            wake=self._context.sweep_wanted.wait,
        )

    async def _sweep(self) -> float:
        self._context.sweep_wanted.clear()
        await self._give_up()
        await drop_left_collections(self._context)
        await self._expire_partial_uploads()
        until_bin = await empty_bins(self._context)
        until_blob = await self._discard()
        return until_blob if until_bin is None else min(max(until_bin, 1.0), until_blob)

    async def _give_up(self) -> None:
        """Abandon ended uploads of this process, expired direct uploads, and the uploads of writers that are gone."""
        await self._give_up_ended()
        if gone := await self._context.database.run(self._gone):
            # A writer may only have lost its connection; wait for it to reconnect before abandoning its uploads.
            await asyncio.sleep(_DOUBT_SECONDS)
            count = await self._context.database.run(lambda connection: self._give_up_of(connection, gone))
            _log.info("gave up uploads whose writer is gone", count=count)

    async def _expire_partial_uploads(self) -> None:
        """Give up partial uploads that have expired, and those whose object came in another way."""
        work = partial(partial_uploads.discard_ended, limit=_BATCH)
        while ended := await self._context.database.run(work):
            PARTIAL_UPLOADS_GIVEN_UP.inc(ended)
            _log.info("gave up partial uploads", count=ended)

    async def _give_up_ended(self) -> None:
        writer = self._context.writer_lease

        async def work(connection: AsyncConnection) -> None:
            ended = [name for name in await contents.ongoing(connection, writer.id) if name not in writer.names]
            await contents.give_up(connection, ended)

        await self._context.database.run(work)
        await give_up_expired(self._context)

    async def _gone(self, connection: AsyncConnection) -> set[int]:
        others = [writer for writer in await contents.writers(connection) if writer != self._context.writer_lease.id]
        return {writer for writer in others if await is_expired(connection, writer)}

    async def _give_up_of(self, connection: AsyncConnection, suspects: set[int]) -> int:
        gone = suspects & await self._gone(connection)
        return sum([await contents.give_up(connection, await contents.ongoing(connection, writer)) for writer in gone])

    async def _discard(self) -> float:
        """Delete due blobs, but none while a backup runs; return the number of seconds until the next look."""

        async def claim(connection: AsyncConnection) -> list[BlobLocation] | None:
            if not await objects.may_delete(connection):
                return None
            stores = [store.id for store in self._context.stores.all]
            return await contents.claim_due(connection, stores, limit=_BATCH)

        count = 0
        while due := await self._context.database.run(claim):
            await self._discard_all(due)
            count += len(due)
        if count:
            _log.info("discarded bytes that no repository holds", count=count)
        if due is None:
            return _HELD_BACK_SECONDS
        seconds = await self._context.database.run(contents.seconds_until_due)
        return _INTERVAL_SECONDS if seconds is None else min(max(seconds, 1.0), _INTERVAL_SECONDS)

    async def _discard_all(self, due: list[BlobLocation]) -> None:
        """Delete each blob and forget its name; if some deletions fail, do the others, and raise one of the errors.

        A blob whose deletion something odd prevents is logged once, and tried again later.
        """
        free, gone, odd = asyncio.Semaphore(_MAX_CONCURRENCY), list[str](), list[str]()

        async def discard(store: Store, name: str) -> None:
            try:
                async with free:
                    await store.backend.delete(name)
            except Exception as error:
                if not _is_odd(error):
                    raise
                odd.append(name)
                if name not in self._odd:
                    _log.error("bytes cannot be discarded", store=store.name, name=name, error=repr(error))
                return
            gone.append(name)

        location = [
            (store, name) for store_id, name in due if (store := self._context.stores.get(store_id)) is not None
        ]
        outcomes = await asyncio.gather(*(discard(*arguments) for arguments in location), return_exceptions=True)
        await self._context.database.run(lambda connection: contents.discarded(connection, gone))
        if odd:
            await self._context.database.run(
                lambda connection: contents.postpone(connection, odd, in_seconds=_INTERVAL_SECONDS)
            )
        self._odd = (self._odd - set(gone)) | set(odd)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome


def _is_odd(error: Exception) -> bool:
    """Return whether one name, such as a folder in a file's place, and not the store, is at fault."""
    return isinstance(error, IsADirectoryError | NotADirectoryError) or isinstance(error.__cause__, PermissionError)
