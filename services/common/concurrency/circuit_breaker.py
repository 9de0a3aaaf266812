"""A circuit breaker: a path that has failed is not tried for a while."""

import time


class CircuitBreaker:
    """A breaker that is open for `seconds` after each failure; while it is open, callers take another path."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        """True while the last failure is too recent for another attempt."""
        return time.monotonic() < self._open_until

    def trip(self) -> None:
        """Record a failure."""
        self._open_until = time.monotonic() + self._seconds
