"""Reading no faster than a rate."""

import asyncio


class RateLimiter:
    """Lets callers go on when the bytes that they have read are due."""

    def __init__(self, rate: int | None) -> None:
        """`rate` is in bytes a second; None for no limit."""
        self.rate = rate
        self._due = 0.0

    async def acquire(self, count: int) -> None:
        """Wait until so many more bytes are due."""
        if self.rate is None:
            return
        now = asyncio.get_running_loop().time()
        # What was not used of a pause is not caught up.
        self._due = max(self._due, now) + count / self.rate
        await asyncio.sleep(self._due - now)
