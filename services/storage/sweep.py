"""Removing bytes that no repository holds: what a crash or an outage has left, and what removals leave to it."""

import asyncio
from contextlib import suppress

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.logs import get_logger
from services.storage import index
from services.storage.removal import settle
from services.storage.store import Store

_INTERVAL_SECONDS = 3600.0
_HELD_BACK_SECONDS = 10.0
_PAUSE_SECONDS = 5.0
_BATCH = 1000

_log = get_logger(__name__)


class Sweeper:
    """Sweeps at start, when it is wanted, and every hour. Its owner runs `run`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._first_done = False

    async def first(self) -> None:
        """Sweep what uploads of an earlier run left, unless that is done already.

        Raises `Unavailable`, or the backend's own error; then it may be repeated.
        """
        if not self._first_done:
            await self._sweep_uploads()
            self._first_done = True

    async def want(self) -> None:
        """Ask `run` for a sweep."""
        self._store.sweep_wanted.set()

    async def run(self) -> None:
        """Sweep whenever it is wanted, for ever."""
        pause = _INTERVAL_SECONDS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._store.sweep_wanted.wait()
            self._store.sweep_wanted.clear()
            try:
                await self._sweep_uploads()
                pause = _INTERVAL_SECONDS if await self._sweep_unclaimed() else _HELD_BACK_SECONDS
            except Exception:  # whatever it was, what is left can be swept later
                _log.exception("sweep failed")
                self._store.sweep_wanted.set()
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _sweep_uploads(self) -> None:
        async def settle_one(oid: str) -> None:
            # Where a backup holds deletions back, the index notes the oid: the upload's trace is needed no more.
            await settle(self._store, oid)

        count = await self._store.backend.sweep(settle_one)
        if count or not self._first_done:
            _log.info("swept what uploads left", count=count)

    async def _sweep_unclaimed(self) -> bool:
        """Delete the bytes that were noted; tell whether that went to the end, or a backup holds deletions back."""

        async def work(connection: AsyncConnection) -> list[str]:
            return await index.unclaimed(connection, limit=_BATCH)

        count = 0
        while oids := await self._store.database.run(work):
            for oid in oids:
                if not await settle(self._store, oid):
                    return False
            count += len(oids)
        if count:
            _log.info("swept what removals left", count=count)
        return True
