"""The stores of a site as this process uses them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from services.common.observability.logs import get_logger
from services.database.transactions import Database
from services.storage.backends.base import Backend
from services.storage.index import stores as table
from services.storage.index.contents import FIRST_STORE_ID, Placed
from services.storage.index.stores import Listed
from services.storage.stores.transfer_modes import Directions

_INTERVAL_SECONDS = 1.0
_REPLACED_REMOTE_SECONDS = 3600.0
_RETRY_SECONDS = 30.0

_log = get_logger(__name__)


@dataclass(eq=False)
class Place:
    """A store, opened."""

    id: int
    name: str
    backend: Backend
    direct: Directions = field(default_factory=Directions)
    """What goes directly between clients and the store, as the probe has seen that it works."""

    @property
    def replaced_seconds(self) -> float:
        """How long bytes stay that others have replaced: only a local file outlives its removal while it is read."""
        return _REPLACED_REMOTE_SECONDS if self.backend.is_remote else 0.0


class Copy(NamedTuple):
    """A store that is a copy of another: how many objects are brought there at once, and bytes in a second."""

    place: Place
    from_id: int
    parallel: int
    bytes_per_second: int | None


class Places:
    """All stores, and which is what. Its owner runs `run`, which brings it up to date each second.

    A process that has not yet heard of a change does no harm: what it writes to a store that is the primary no more
    is found there, and brought to the one that is.
    """

    def __init__(self, database: Database, first: Backend, open_store: Callable[[str], Awaitable[Backend]]) -> None:
        self.primary = Place(FIRST_STORE_ID, "first", first)
        self.copies: list[Copy] = []
        self._database = database
        self._open = open_store
        self._opened = {FIRST_STORE_ID: self.primary}
        self._all = [self.primary]
        self._refreshing = asyncio.Lock()
        self._known = asyncio.Event()
        self._changed = asyncio.Event()
        self._paused: dict[int, float] = {}
        self._said: dict[int, str] = {}

    @property
    def all(self) -> list[Place]:
        """All stores that can be opened, the primary first."""
        return self._all

    def get(self, store_id: int) -> Place | None:
        """Return a store; None for one that was forgotten, or that this process cannot open."""
        return next((place for place in self._all if place.id == store_id), None)

    def of(self, placed: Iterable[Placed]) -> list[tuple[Place, str]]:
        """Return in which stores, and under which name there, bytes are; the primary first."""
        names = dict(placed)
        return [(place, names[place.id]) for place in self._all if place.id in names]

    def mirrors(self) -> list[Place]:
        """Return the stores that get what is written as soon as the primary: copies that have not failed just now."""
        now = asyncio.get_running_loop().time()
        return [copy.place for copy in self.copies if self._paused.get(copy.place.id, 0.0) <= now]

    def pause(self, place: Place) -> None:
        """Write to a copy no more for a while; what it lacks then is brought there later."""
        self._paused[place.id] = asyncio.get_running_loop().time() + _RETRY_SECONDS

    async def next_primary(self, now: Place) -> None:
        """Return when another store is the primary."""
        while self.primary is now:
            self._changed.clear()
            await self._changed.wait()

    async def known(self) -> None:
        """Return when the list was read once."""
        await self._known.wait()

    async def run(self) -> None:
        """Follow the list, for ever."""
        while True:
            try:
                await self.refresh()
            except Exception as error:  # whatever it was, what was known before is used meanwhile
                _log.warning("the list of stores cannot be read", error=repr(error))
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def refresh(self) -> None:
        """Read the list now. Raises what the database raises."""
        async with self._refreshing:
            await self._refresh()

    async def _refresh(self) -> None:
        stores = await self._database.run(table.listed)
        places = {listed.store.id: place for listed in stores if (place := await self._place(listed))}
        primary = next((places.get(listed.store.id) for listed in stores if listed.store.is_primary), None)
        if primary is None:
            # Better than to write nothing, where it is still there.
            primary = self.primary
            if not self._known.is_set():
                return
        if primary is not self.primary:
            _log.info("what is written goes to another store", store=primary.name)
            self.primary = primary
            self._changed.set()
        self._all = [primary, *(place for place in places.values() if place is not primary)]
        self.copies = [
            Copy(place, copy.from_id, copy.parallel, copy.bytes_per_second)
            for store, copy in stores
            if copy and (place := places.get(store.id)) and place is not primary
        ]
        self._opened = places
        self._known.set()

    async def _place(self, listed: Listed) -> Place | None:
        """Return a store, opened once; None where it cannot be."""
        store = listed.store
        if (opened := self._opened.get(store.id)) is not None:
            return opened
        try:
            place = Place(store.id, store.name, await self._open(store.url or ""))
        except (ValueError, OSError) as error:
            if self._said.get(store.id) != str(error):
                _log.error("a store cannot be opened", store=store.name, error=str(error))
                self._said[store.id] = str(error)
            return None
        self._said.pop(store.id, None)
        return place
