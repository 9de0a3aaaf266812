"""Whether bytes still fit."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from services.common.logs import get_logger
from services.storage.backend import Backend
from services.storage.neighbours import TELL_SECONDS, Neighbours
from services.storage.refusals import storage_full

# What is smaller is not told before it begins: many such come at once, and the reserve is there for them.
_LARGE_BYTES = 16 * 1024 * 1024
# How long a look at the disk is good for those who fit by it: many come at once.
_SEEN_SECONDS = 0.05

_log = get_logger(__name__)


@dataclass(frozen=True)
class _Seen:
    """What a look has shown that began at a moment, when so many bytes had been written by this process."""

    backend: Backend
    at: float
    written: int
    unreserved: int
    """The bytes that there were for uploads that go on here, and for new ones."""


class Announced:
    """The bytes of one upload that are still to come."""

    def __init__(self, size: int, written: Callable[[int], None]) -> None:
        self.remaining = size
        self._written = written

    def arrived(self, count: int) -> None:
        """Note bytes that are written, and so no longer free."""
        self.remaining = max(0, self.remaining - count)
        self._written(count)


class Room:
    """The free bytes of the primary, less a reserve and what uploads that go on have announced, here and elsewhere.

    Its owner runs `run`, so that neighbours know of the uploads of this process.
    """

    def __init__(self, backend: Callable[[], Backend], reserve: int, neighbours: Neighbours) -> None:
        """`backend` returns that of the primary, as it is then."""
        self._backend = backend
        self._reserve = reserve
        self._neighbours = neighbours
        self._uploads: set[Announced] = set()
        self._admission = asyncio.Lock()
        self._written = 0
        self._seen: _Seen | None = None

    async def available_bytes(self) -> int | None:
        """Return how many more bytes may be announced; None where nothing bounds them. Raises `Unavailable`."""
        backend, at, written = self._backend(), time.monotonic(), self._written
        free = await backend.available_bytes()
        if free is None:
            return None
        self._seen = _Seen(backend, at, written, free - self._reserve - await self._neighbours.announced())
        return max(0, self._seen.unreserved - self._remaining)

    async def require(self, size: int) -> None:
        """Raise `ResourceExhausted` (STORAGE_FULL) unless so many bytes fit, or `Unavailable`.

        That they fit is told by what was seen within the last 50 ms too, less what has been written here since.
        """
        if self._has_room_for(size):
            return
        available = await self.available_bytes()
        if available is not None and size > available:
            raise storage_full()

    def _has_room_for(self, size: int) -> bool:
        seen = self._seen
        if seen is None or seen.backend is not self._backend() or time.monotonic() > seen.at + _SEEN_SECONDS:
            return False
        return size <= seen.unreserved - (self._written - seen.written) - self._remaining

    @asynccontextmanager
    async def announced(self, size: int) -> AsyncIterator[Announced]:
        """Keep room for an upload of `size` bytes while it goes on; raises as `require` does.

        No two processes give the same room away to large uploads.
        """
        await self.require(size)
        upload = Announced(size, self._count_written)
        try:
            if size < _LARGE_BYTES or await self._backend().available_bytes() is None:
                self._uploads.add(upload)
            else:
                await self._add_large(upload)
            yield upload
        finally:
            self._uploads.discard(upload)

    async def run(self) -> None:
        """Tell the neighbours about every second while there is something to tell, for ever."""
        told = False
        while True:
            await asyncio.sleep(TELL_SECONDS)
            if not (self._uploads or told) or await self._backend().available_bytes() is None:
                continue
            try:
                await self._neighbours.tell(self._remaining)
                told = bool(self._uploads)
            except Exception as error:  # whatever it was, the next time may succeed
                _log.warning("the uploads that go on are not told to others", error=repr(error))

    def _count_written(self, count: int) -> None:
        self._written += count

    @property
    def _remaining(self) -> int:
        return sum(upload.remaining for upload in self._uploads)

    async def _add_large(self, upload: Announced) -> None:
        async with self._admission:
            self._uploads.add(upload)

            async def require(others: int) -> None:
                free = await self._backend().available_bytes()
                if free is not None and self._reserve + self._remaining + others > free:
                    raise storage_full()

            await self._neighbours.tell_in_turn(self._remaining, require)
