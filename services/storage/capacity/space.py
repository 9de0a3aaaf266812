"""Whether bytes still fit."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from services.common.concurrency.periodic import run_periodically
from services.storage.backends.base import Backend
from services.storage.capacity.space_exchange import PUBLISH_SECONDS, PeerReservations
from services.storage.errors import storage_full

LOOK_AHEAD_BYTES = 16 * 1024 * 1024
"""The bytes that are kept for an upload beyond those that are there: who announces much and sends little keeps little.

The reserve is there for what several processes give away in the same second.
"""

# How long a look at the disk is good for those who fit by it: many come at once.
_SEEN_SECONDS = 0.05


@dataclass(frozen=True)
class _Measurement:
    """What a look has shown that began at a moment, when so many bytes had been written by this process."""

    backend: Backend
    at: float
    written: int
    unreserved: int
    """The bytes that there were for uploads that go on here, and for new ones."""


class Reservation:
    """One upload that goes on: the bytes that are still to come, and for how many of them room is kept."""

    def __init__(self, size: int, space: "SpaceManager") -> None:
        self._remaining = size
        self._space = space
        self.kept = 0
        self.gives_way = False
        """True once it is refused for want of room: what it has written will soon be free."""

    async def expect(self, count: int) -> None:
        """Keep room for bytes before they are written, and for some more. Raises `ResourceExhausted` (STORAGE_FULL).

        What was written until then has to go, and is free again when the upload is over.
        """
        if count <= self.kept:
            return
        wanted = max(count, min(LOOK_AHEAD_BYTES, self._remaining))
        await self._space.keep(self, wanted - self.kept)

    def written(self, count: int) -> None:
        """Note bytes that are written, and so no longer free."""
        self._remaining = max(0, self._remaining - count)
        self.kept = max(0, self.kept - count)
        self._space.count_written(count)


class SpaceManager:
    """The free bytes of the primary, less a reserve and what is kept for uploads that go on, here and elsewhere.

    Its owner runs `run`, so that neighbours know of the uploads of this process.
    """

    def __init__(self, backend: Callable[[], Backend], reserve: int, peers: PeerReservations) -> None:
        """`backend` returns that of the primary, as it is then."""
        self._backend = backend
        self._reserve = reserve
        self._peers = peers
        self._uploads: set[Reservation] = set()
        self._giving_way = asyncio.Lock()
        self._written = 0
        self._seen: _Measurement | None = None

    async def available_bytes(self) -> int | None:
        """Return how many more bytes may come; None where nothing bounds them. Raises `Unavailable`."""
        backend, at, written = self._backend(), time.monotonic(), self._written
        free = await backend.available_bytes()
        if free is None:
            return None
        self._seen = _Measurement(backend, at, written, free - self._reserve - await self._peers.kept())
        return max(0, self._left(self._seen))

    async def require(self, size: int) -> None:
        """Raise `ResourceExhausted` (STORAGE_FULL) unless so many bytes fit, or `Unavailable`.

        That they fit is told by what was seen within the last 50 ms too, less what has been written here since.
        """
        if not await self._fits(size):
            raise storage_full()

    async def keep(self, upload: Reservation, count: int) -> None:
        """Keep room for more bytes of an upload. Raises as `require` does; the upload is over then.

        Of uploads that have no room together, one gives way at a time: the others go on with what it leaves.
        """
        if not await self._fits(count):
            await self._giving_way.acquire()
            try:
                upload.gives_way = not await self._fits(count)
            finally:
                if not upload.gives_way:
                    self._giving_way.release()
            if upload.gives_way:
                raise storage_full()
        upload.kept += count

    def count_written(self, count: int) -> None:
        """Note that bytes were written here."""
        self._written += count

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[Reservation]:
        """Begin an upload of `size` bytes, which all must fit as it is now; raises as `require` does.

        Room is kept for the first of them, and then for others as they come.
        """
        await self.require(size)
        upload = Reservation(size, self)
        upload.kept = min(LOOK_AHEAD_BYTES, size)
        self._uploads.add(upload)
        try:
            yield upload
        finally:
            self._uploads.discard(upload)
            if upload.gives_way:
                self._giving_way.release()

    async def run(self) -> None:
        """Tell the neighbours about every second while there is something to tell, for ever."""
        told = False

        async def publish() -> None:
            nonlocal told
            if (self._uploads or told) and await self._backend().available_bytes() is not None:
                await self._peers.publish(self._kept)
                told = bool(self._uploads)

        await run_periodically(publish, PUBLISH_SECONDS, trouble="the uploads that go on are not told to others")

    async def _fits(self, size: int) -> bool:
        if self._has_room_for(size):
            return True
        available = await self.available_bytes()
        return available is None or size <= available

    def _has_room_for(self, size: int) -> bool:
        seen = self._seen
        if seen is None or seen.backend is not self._backend() or time.monotonic() > seen.at + _SEEN_SECONDS:
            return False
        return size <= self._left(seen)

    def _left(self, seen: _Measurement) -> int:
        # What was written while it was looked may be counted twice, and is not missed.
        return seen.unreserved - (self._written - seen.written) - self._kept

    @property
    def _kept(self) -> int:
        return sum(upload.kept for upload in self._uploads)
