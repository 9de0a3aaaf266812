"""How repeated bad credentials are slowed (client row 6): by address, in this process's memory."""

import math
import time

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter


class FailedLogins:
    """Counts bad credentials; a limit such as `10/minute` says how many an address may show.

    Each facade counts for itself: two of them let twice as many through, which is no harm.
    """

    def __init__(self, limit: str) -> None:
        self._limit = parse(limit)
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def count(self, address: str) -> int:
        """Count one; return 0, or where the limit is reached, after how many whole seconds to come again."""
        if self._limiter.hit(self._limit, address):
            return 0
        window = self._limiter.get_window_stats(self._limit, address)
        return max(1, math.ceil(window.reset_time - time.time()))
