"""A circuit breaker: a way that has failed is left alone for a while."""

import time


class CircuitBreaker:
    """Open for `seconds` after each failure; while it is open, another way is taken."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the last failure is too recent for another attempt."""
        return time.monotonic() < self._open_until

    def trip(self) -> None:
        """Record a failure."""
        self._open_until = time.monotonic() + self._seconds
