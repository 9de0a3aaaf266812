"""Rates of the requests that come from an address without credentials, by the generic cell rate algorithm."""

import time
from collections import OrderedDict
from collections.abc import Callable

_BURST_SECONDS = 60.0
_MIN_BURST = 10
_MAX_ADDRESSES = 10_000
_HOUR_SECONDS = 3_600.0
# The tolerance for sums of seconds, because floating-point sums are not exact.
_ROUNDING_SECONDS = 1e-6


class AddressRates:
    """Takes requests from the rates of addresses, each of which may make those of a minute, and at least ten, at once.

    `per_hour` is the limit of each address, 0 for none. This process counts alone: a refusal costs no other service
    anything. Of more than 10,000 addresses, those that have made no request for the longest begin again.
    """

    def __init__(self, per_hour: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_hour = per_hour
        self._interval = _HOUR_SECONDS / per_hour if per_hour else 0.0
        self._burst = max(_BURST_SECONDS, _MIN_BURST * self._interval)
        self._clock = clock
        # The moment at which all requests of an address are paid off, those of the latest request last.
        self._paid_at: OrderedDict[str, float] = OrderedDict()

    def take(self, network: str) -> float:
        """Take one request of an address and return 0; over the limit, only return the seconds until a retry."""
        now = self._clock()
        paid_at = max(now, self._paid_at.get(network, now)) + self._interval
        if (seconds := paid_at - now - self._burst) > _ROUNDING_SECONDS:
            return seconds
        self._paid_at[network] = paid_at
        self._paid_at.move_to_end(network)
        if len(self._paid_at) > _MAX_ADDRESSES:
            self._paid_at.popitem(last=False)
        return 0.0
