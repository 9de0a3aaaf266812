"""Whether bytes still fit."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from services.common.logs import get_logger
from services.storage.backend import Backend
from services.storage.neighbours import TELL_SECONDS, Neighbours
from services.storage.refusals import storage_full

# What is smaller is not told before it begins: many such come at once, and the reserve is there for them.
_LARGE_BYTES = 16 * 1024 * 1024

_log = get_logger(__name__)


class Announced:
    """The bytes of one upload that are still to come."""

    def __init__(self, size: int) -> None:
        self.remaining = size

    def arrived(self, count: int) -> None:
        """Note bytes that are written, and so no longer free."""
        self.remaining = max(0, self.remaining - count)


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

    async def available_bytes(self) -> int | None:
        """Return how many more bytes may be announced; None where nothing bounds them. Raises `Unavailable`."""
        free = await self._backend().available_bytes()
        if free is None:
            return None
        return max(0, free - self._reserve - self._remaining - await self._neighbours.announced())

    async def require(self, size: int) -> None:
        """Raise `ResourceExhausted` (STORAGE_FULL) unless so many bytes fit, or `Unavailable`."""
        available = await self.available_bytes()
        if available is not None and size > available:
            raise storage_full()

    @asynccontextmanager
    async def announced(self, size: int) -> AsyncIterator[Announced]:
        """Keep room for an upload of `size` bytes while it goes on; raises as `require` does.

        No two processes give the same room away to large uploads.
        """
        await self.require(size)
        upload = Announced(size)
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
