"""A limit of the bytes that all transfers together move in a second."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator

PIECE_BYTES = 64 * 1024
"""The most bytes that wait for their turn together, so that no stream is silent for long."""


class Rate:
    """A rate in bytes a second; 0 for no limit."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._free_at = 0.0

    async def limited(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield the bytes, no faster than the rate."""
        if not self._rate:
            async for chunk in chunks:
                yield chunk
            return
        async for chunk in chunks:
            for start in range(0, len(chunk), PIECE_BYTES):
                piece = chunk[start : start + PIECE_BYTES]
                await self._take(len(piece))
                yield piece

    async def _take(self, count: int) -> None:
        now = time.monotonic()
        begins = max(now, self._free_at)
        self._free_at = begins + count / self._rate
        await asyncio.sleep(self._free_at - now)
