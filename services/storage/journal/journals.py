"""The journals of all disks to which a process writes."""

import asyncio

from services.common.concurrency.periodic import run_periodically
from services.common.observability.logs import get_logger
from services.database.transactions import Database
from services.storage.backends.disk import DiskBackend
from services.storage.journal.journal import Journal
from services.storage.stores.registry import Store, StoreRegistry

_INTERVAL_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_CLOSE_SECONDS = 5.0

_log = get_logger(__name__)


class Journals:
    """Journals by store. Its owner runs `run`, and closes it when nothing is written any more."""

    def __init__(self, database: Database, stores: StoreRegistry) -> None:
        self._database = database
        self._stores = stores
        self._journals: dict[Store, Journal | None] = {}
        self._recovered = asyncio.Event()

    def of(self, store: Store) -> Journal | None:
        """Return the journal of a store; None if it has none, such as a bucket, or if the journal is not open yet."""
        return self._journals.get(store)

    async def recovered(self) -> None:
        """Return when the segments that other processes left in the primary's journal are recovered."""
        await self._recovered.wait()

    async def run(self) -> None:
        """Tidy the journals, forever."""
        await self._stores.known()
        await run_periodically(self._tidy_all, _INTERVAL_SECONDS, trouble="journals cannot be kept tidy")

    async def close(self) -> None:
        """Release all journals; objects that cannot be synced to their files now are recovered at the next start."""
        for store, journal in self._journals.items():
            if journal is not None:
                try:
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await journal.close()
                except Exception as error:  # whatever failed, the next start continues with it
                    _log.warning("a journal stays for the next start", store=store.name, error=repr(error))

    async def _tidy_all(self) -> float:
        pause = _INTERVAL_SECONDS
        for store in self._stores.all:
            try:
                await self._tidy(store)
            except Exception as error:  # whatever failed, the other journals must be tidied
                _log.warning("a journal cannot be brought to its files", store=store.name, error=repr(error))
                pause = _RETRY_SECONDS
            else:
                if store is self._stores.primary:
                    self._recovered.set()
        return pause

    async def _tidy(self, store: Store) -> None:
        if store not in self._journals and isinstance(store.backend, DiskBackend):
            self._journals[store] = await Journal.open(self._database, store.id, store.backend)
        if (journal := self._journals.get(store)) is not None:
            await journal.tidy()
