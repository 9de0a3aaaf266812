"""The registry of a site's stores, as this process uses them."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from services.common.concurrency.circuit_breaker import CircuitBreaker
from services.common.concurrency.periodic import run_periodically
from services.common.observability.logs import get_logger
from services.database.transactions import Database
from services.storage.backends.base import Backend
from services.storage.index import store_table
from services.storage.index.contents import FIRST_STORE_ID, BlobLocation
from services.storage.index.models import StoreRecord
from services.storage.stores.transfer_modes import Directions

_INTERVAL_SECONDS = 1.0
_REPLACED_REMOTE_SECONDS = 3600.0
_RETRY_SECONDS = 30.0

_log = get_logger(__name__)


@dataclass(eq=False)
class Store:
    """An open store."""

    id: int
    name: str
    backend: Backend
    direct: Directions = field(default_factory=Directions)
    """The directions of direct transfer with which the store has passed the probe."""

    @property
    def replaced_seconds(self) -> float:
        """The retention of replaced blobs in seconds: only a local file outlives its removal while it is read."""
        return _REPLACED_REMOTE_SECONDS if self.backend.is_remote else 0.0


class Copy(NamedTuple):
    """A store that is a copy of another, with its limits: objects copied in parallel, and bytes per second."""

    store: Store
    from_id: int
    parallel: int
    bytes_per_second: int | None


class StoreRegistry:
    """All stores and their roles. Its owner runs `run`, which refreshes the registry every second.

    A process that has not yet noticed a change does no harm: an object that it writes to a former primary is found
    there, and copied to the current primary.
    """

    def __init__(self, database: Database, first: Backend, open_store: Callable[[str], Awaitable[Backend]]) -> None:
        self.primary = Store(FIRST_STORE_ID, "first", first)
        self.copies: list[Copy] = []
        self._database = database
        self._open = open_store
        self._opened = {FIRST_STORE_ID: self.primary}
        self._all = [self.primary]
        self._refreshing = asyncio.Lock()
        self._known = asyncio.Event()
        self._changed = asyncio.Event()
        self._breakers: dict[int, CircuitBreaker] = defaultdict(partial(CircuitBreaker, _RETRY_SECONDS))
        self._said: dict[int, str] = {}

    @property
    def all(self) -> list[Store]:
        """All stores that can be opened, the primary first."""
        return self._all

    def get(self, store_id: int) -> Store | None:
        """Return a store; None if it was deleted, or if this process cannot open it."""
        return next((store for store in self._all if store.id == store_id), None)

    def of(self, locations: Iterable[BlobLocation]) -> list[tuple[Store, str]]:
        """Return the stores of these locations, with the blob name in each; the primary first."""
        names = dict(locations)
        return [(store, names[store.id]) for store in self._all if store.id in names]

    def replicas(self) -> list[Store]:
        """Return the stores that take uploads along with the primary: the copies that have not failed recently."""
        return [copy.store for copy in self.copies if not self._breakers[copy.store.id].is_open]

    def pause(self, store: Store) -> None:
        """Exclude a copy from uploads for a while; the copier fills it later."""
        self._breakers[store.id].trip()

    async def next_primary(self, now: Store) -> None:
        """Return when another store is the primary."""
        while self.primary is now:
            self._changed.clear()
            await self._changed.wait()

    async def known(self) -> None:
        """Return when the list has been read once."""
        await self._known.wait()

    async def run(self) -> None:
        """Follow the list, forever."""
        await run_periodically(self.refresh, _INTERVAL_SECONDS, trouble="the list of stores cannot be read")

    async def refresh(self) -> None:
        """Read the list now. Raises what the database raises."""
        async with self._refreshing:
            await self._refresh()

    async def _refresh(self) -> None:
        listings = await self._database.run(store_table.list_stores)
        stores = {record.id: store for record, _ in listings if (store := await self._opened_store(record))}
        primary = next((stores.get(record.id) for record, _ in listings if record.is_primary), None)
        if primary is None:
            # Writing to the present primary, which may still be there, is better than refusing all uploads.
            primary = self.primary
            if not self._known.is_set():
                return
        if primary is not self.primary:
            _log.info("what is written goes to another store", store=primary.name)
            self.primary = primary
            self._changed.set()
        self._all = [primary, *(store for store in stores.values() if store is not primary)]
        self.copies = [
            Copy(store, copy.from_id, copy.parallel, copy.bytes_per_second)
            for record, copy in listings
            if copy and (store := stores.get(record.id)) and store is not primary
        ]
        self._opened = stores
        self._known.set()

    async def _opened_store(self, record: StoreRecord) -> Store | None:
        """Return a store, which is opened only once; None if it cannot be opened."""
        if (opened := self._opened.get(record.id)) is not None:
            return opened
        try:
            store = Store(record.id, record.name, await self._open(record.url or ""))
        except (ValueError, OSError) as error:
            if self._said.get(record.id) != str(error):
                _log.error("a store cannot be opened", store=record.name, error=str(error))
                self._said[record.id] = str(error)
            return None
        self._said.pop(record.id, None)
        return store
