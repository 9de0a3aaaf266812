"""The feed of a process: it tells the watchers of a repository of each change of its locks, once and in order.

While a repository is watched, its generation is read five times a second, together with those of all others. Postgres
sends no notification, because NOTIFY makes all transactions commit one by one (docs/decisions/0034).
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import NamedTuple, Never

from services.common.concurrency.periodic import run_periodically
from services.common.errors import Reason, ResourceExhausted
from services.common.lock_positions import Position, parse_position
from services.database.transactions import Database
from services.locks import metrics
from services.locks.events.reader import Event, no_repository, read_events, read_generations, read_position

_LOOK_SECONDS = 0.2
_UNWATCHED_SECONDS = 3600.0
# Watchers that are further behind read the table.
_MAX_RECENT = 256
_MAX_WATCHES = 8_192


class Update(NamedTuple):
    """Events, and the position after them. After a `reset`, events are missing: the locks have to be listed again."""

    events: Sequence[Event]
    position: Position
    reset: bool = False


class LockFeed:
    """The feed; `keep_reading` runs beside its watchers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._repositories: dict[int, _RepositoryFeed] = {}
        self._watches: Counter[str] = Counter()
        self._watched = asyncio.Event()
        self._is_closed = False

    async def keep_reading(self) -> Never:
        """Read the changes of watched repositories until cancelled."""
        await run_periodically(
            self._look, _LOOK_SECONDS, trouble="changes of locks are not read", wake=self._watched.wait
        )

    async def close(self) -> None:
        """End every watch, so that its caller can go on at another process."""
        self._is_closed = True
        for repository in self._repositories.values():
            repository.wake()

    async def watch(
        self, repository_id: int, after: str | None, *, idle_seconds: float, caller: str, share: int
    ) -> AsyncGenerator[Update, None]:
        """Yield the events after a position, or from now on; an empty update at first, and after each `idle_seconds`.

        The first update is a reset if the events after the position are not there any more. The iterator ends with
        `close`. Raises `NotFound` (REPOSITORY_NOT_FOUND), also when the repository is removed later, and
        `ResourceExhausted` (RATE_LIMITED) where `caller` has `share` watches already, or all callers have 8,192.
        """
        if self._watches[caller] >= share or self._watches.total() >= _MAX_WATCHES:
            raise ResourceExhausted(Reason.RATE_LIMITED, "too many watches of locks are being served", retry_after="1")
        self._watches[caller] += 1
        metrics.WATCHES.inc()
        repository = self._repositories.setdefault(repository_id, _RepositoryFeed(self._database, repository_id))
        repository.watchers += 1
        try:
            await repository.refresh()
            self._watched.set()
            position = repository.now if after is None else parse_position(after)
            if position is None:
                position = repository.now
                yield Update((), position, reset=True)
            else:
                yield Update((), position)
            while not self._is_closed:
                update = await repository.after(position, idle_seconds)
                position = update.position
                yield update
        finally:
            metrics.WATCHES.dec()
            self._watches[caller] -= 1
            if not self._watches[caller]:
                del self._watches[caller]
            repository.watchers -= 1
            if not repository.watchers:
                self._repositories.pop(repository_id, None)

    async def _look(self) -> float | None:
        self._watched.clear()
        watched = dict(self._repositories)
        if not watched:
            return _UNWATCHED_SECONDS
        generations = await read_generations(self._database, list(watched))
        for repository_id, repository in watched.items():
            generation = generations.get(repository_id)
            if generation is None:
                repository.remove()
            elif generation != repository.now.generation:
                await repository.refresh()
        return None


class _RepositoryFeed:
    """The position after the last event of one repository, and its last events."""

    def __init__(self, database: Database, repository_id: int) -> None:
        self.now = Position(repository_id)
        self.watchers = 0
        self._database = database
        self._repository_id = repository_id
        # The events after known positions, each of which is the end of the entry before it.
        self._recent: deque[tuple[Position, Sequence[Event]]] = deque(maxlen=_MAX_RECENT)
        self._refreshing = asyncio.Lock()
        self._changed = asyncio.Event()
        self._is_read = False
        self._is_removed = False

    def wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def remove(self) -> None:
        self._is_removed = True
        self.wake()

    async def refresh(self) -> None:
        """Read the events since the last refresh. Raises `NotFound` (REPOSITORY_NOT_FOUND)."""
        async with self._refreshing:
            now = await read_position(self._database, self._repository_id)
            while self.now != now:
                events = await read_events(self._database, self.now, now) if self._is_read else None
                if events is None:
                    self._recent.clear()
                else:
                    self._recent.append((self.now, events))
                self.now, self._is_read = now if events is None else events[-1].position, True
                self.wake()
            self._is_read = True

    async def after(self, position: Position, idle_seconds: float) -> Update:
        """Return the next events after a position, once there are any; an empty update after `idle_seconds`."""
        if position == self.now and not self._is_removed:
            with suppress(TimeoutError):
                async with asyncio.timeout(idle_seconds):
                    await self._changed.wait()
        if self._is_removed:
            raise no_repository()
        now = self.now
        if position == now:
            return Update((), position)
        events = self._recent_after(position) or await read_events(self._database, position, now)
        return Update((), now, reset=True) if events is None else Update(events, events[-1].position)

    def _recent_after(self, position: Position) -> Sequence[Event]:
        return next((events for known, events in self._recent if known == position), ())
