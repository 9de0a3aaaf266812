"""Whether bytes still fit."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.storage.backend import Backend
from services.storage.refusals import storage_full


class Announced:
    """The bytes of one upload that are still to come."""

    def __init__(self, size: int) -> None:
        self.remaining = size

    def arrived(self, count: int) -> None:
        """Note bytes that are written, and so no longer free."""
        self.remaining = max(0, self.remaining - count)


class Room:
    """The free bytes of a backend, less a reserve and less what uploads that go on have announced."""

    def __init__(self, backend: Backend, reserve: int) -> None:
        self._backend = backend
        self._reserve = reserve
        self._uploads: set[Announced] = set()

    async def available_bytes(self) -> int | None:
        """Return how many more bytes may be announced; None where nothing bounds them."""
        available = await self._backend.available_bytes()
        if available is None:
            return None
        taken = self._reserve + sum(upload.remaining for upload in self._uploads)
        return max(0, available - taken)

    async def require(self, size: int) -> None:
        """Raise `ResourceExhausted` (STORAGE_FULL) unless so many bytes fit."""
        available = await self.available_bytes()
        if available is not None and size > available:
            raise storage_full()

    @asynccontextmanager
    async def announced(self, size: int) -> AsyncIterator[Announced]:
        """Keep room for an upload of `size` bytes while it goes on; raises as `require` does."""
        await self.require(size)
        upload = Announced(size)
        self._uploads.add(upload)
        try:
            yield upload
        finally:
            self._uploads.discard(upload)
