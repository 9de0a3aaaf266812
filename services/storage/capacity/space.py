"""Space reservations: uploads are admitted only while the primary has room for them."""

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
"""The bytes that an upload reserves ahead: an upload that announces much and sends little reserves little.

The setting `storage_reserve_bytes` covers the bytes that several processes grant in the same second.
"""

# Uploads that fit are admitted by a measurement of the disk up to this old, because many uploads arrive at once.
_SEEN_SECONDS = 0.05


@dataclass(frozen=True)
class _Measurement:
    """A measurement of the disk: `at` is its start, and `written` the bytes that this process had written by then."""

    backend: Backend
    at: float
    written: int
    unreserved: int
    """The bytes available to the running and the new uploads of this process."""


class Reservation:
    """The reservation of one running upload: the bytes still to arrive, and the number of bytes reserved for them."""

    def __init__(self, size: int, space: "SpaceManager") -> None:
        self._remaining = size
        self._space = space
        self.kept = 0
        self.gives_way = False
        """True once the upload is refused for lack of room: the bytes that it has written will soon be free."""

    async def expect(self, count: int) -> None:
        """Reserve room for bytes before they are written, and for some more. Raises `ResourceExhausted` (STORAGE_FULL).

        The caller must then delete the bytes written so far, which are free again when the upload is over.
        """
        if count <= self.kept:
            return
        wanted = max(count, min(LOOK_AHEAD_BYTES, self._remaining))
        await self._space.keep(self, wanted - self.kept)

    def written(self, count: int) -> None:
        """Record bytes that are written, and therefore no longer free."""
        self._remaining = max(0, self._remaining - count)
        self.kept = max(0, self.kept - count)
        self._space.count_written(count)


class SpaceManager:
    """The free bytes of the primary, minus a reserve and the reservations of this and other processes.

    Its owner runs `run`, so that other processes know the reservations of this process.
    """

    def __init__(self, backend: Callable[[], Backend], reserve: int, peers: PeerReservations) -> None:
        """`backend` returns the backend of the current primary."""
        self._backend = backend
        self._reserve = reserve
        self._peers = peers
        self._uploads: set[Reservation] = set()
        self._giving_way = asyncio.Lock()
        self._written = 0
        self._seen: _Measurement | None = None

    async def available_bytes(self) -> int | None:
        """Return how many more bytes fit; None if nothing limits them. Raises `Unavailable`."""
        backend, at, written = self._backend(), time.monotonic(), self._written
        free = await backend.available_bytes()
        if free is None:
            return None
        self._seen = _Measurement(backend, at, written, free - self._reserve - await self._peers.kept())
        return max(0, self._left(self._seen))

    async def require(self, size: int) -> None:
        """Raise `ResourceExhausted` (STORAGE_FULL) unless `size` bytes fit, or `Unavailable`.

        They have to leave up to an eighth of their number free, so that whoever tries sizes does not learn exactly how
        much is free. A measurement of the last 50 ms, minus the bytes that this process has written since, can admit
        the bytes too.
        """
        if not await self._fits(_rounded(size)):
            raise storage_full()

    async def keep(self, upload: Reservation, count: int) -> None:
        """Reserve room for more bytes of an upload. Raises as `require` does; the upload is then over.

        If the uploads together have no room, one upload gives way at a time, and the others continue with its room.
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
        """Record that this process has written bytes."""
        self._written += count

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[Reservation]:
        """Begin an upload of `size` bytes, all of which must fit at present; raises as `require` does.

        Room is reserved for the first of the bytes, and for more as bytes arrive.
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
        """Publish the reservations of this process about every second while there are any, forever."""
        is_published = False

        async def publish() -> None:
            nonlocal is_published
            if (self._uploads or is_published) and await self._backend().available_bytes() is not None:
                await self._peers.publish(self._kept)
                is_published = bool(self._uploads)

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
        # Bytes written during the measurement may be counted twice, but are never missed.
        return seen.unreserved - (self._written - seen.written) - self._kept

    @property
    def _kept(self) -> int:
        return sum(upload.kept for upload in self._uploads)


def _rounded(size: int) -> int:
    """Return the least number, from `size` on, that has four binary digits and then zeros."""
    step = 1 << max(0, size.bit_length() - 4)
    return -(-size // step) * step
