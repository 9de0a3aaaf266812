"""A limit for the rate of reading."""

import asyncio


class RateLimiter:
    """Delays callers until the bytes that they have read are due."""

    def __init__(self, rate: int | None) -> None:
        """`rate` is in bytes per second; None for no limit."""
        self.rate = rate
        self._due = 0.0

    async def acquire(self, count: int) -> None:
        """Wait until `count` more bytes are due."""
        if self.rate is None:
            return
        now = asyncio.get_running_loop().time()
        # Time that passes unused is not credited, so that no burst follows a pause.
        self._due = max(self._due, now) + count / self.rate
        await asyncio.sleep(self._due - now)
