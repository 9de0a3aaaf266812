"""GCRA, the generic cell rate algorithm: even rates with a bounded burst, kept in one moment for each holder.

The theoretical arrival time (`tat`) is the moment at which all requests that were taken are paid off. Each request
moves it on by the interval between two requests of the rate, and it may be ahead of now by the intervals of a burst.
"""

import math
from typing import NamedTuple

_BURST_SECONDS = 2.0
_MIN_BURST = 10
# Requests that nobody waits for yet get a part of what is over half of the burst, so that no caller holds what others
# need, and what is not used is never missing.
_AHEAD_PART = 4
# The tolerance for floating-point sums, as a part of a request.
_ROUNDING = 1e-3
_HOUR_SECONDS = 3_600.0


class Rate(NamedTuple):
    """A limit of requests."""

    per_hour: int

    @property
    def interval(self) -> float:
        """The seconds between two requests of the rate."""
        return _HOUR_SECONDS / self.per_hour

    @property
    def burst(self) -> int:
        """The requests that may be made at once after a pause: those of two seconds, and at least ten."""
        return max(_MIN_BURST, round(_BURST_SECONDS / self.interval))


class Demand(NamedTuple):
    """The requests that a caller wants: `needed` now, and `ahead` for those to come."""

    needed: int
    ahead: int = 0


class Taken(NamedTuple):
    """The requests that were taken, and the seconds until there is one more, if that is fewer than were needed."""

    requests: int
    retry_seconds: float
    tat: float
    """The theoretical arrival time from now on."""


def take(rate: Rate, demand: Demand, *, tat: float, now: float) -> Taken:
    """Take requests from a rate; `tat` and `now` are seconds of one clock.

    In any time, at most the requests of the burst and of the rate in this time are taken. The needed ones are taken
    first, one by one as long as any are left. No wait is longer than the interval, also after the clock was set back.
    """
    base = min(max(tat, now), now + rate.burst * rate.interval)
    left = max(0, math.floor((now - base) / rate.interval + rate.burst + _ROUNDING))
    needed = min(left, demand.needed)
    spare = max(0, left - needed - rate.burst // 2) // _AHEAD_PART
    requests = needed + min(demand.ahead, spare)
    tat = base + requests * rate.interval
    retry_seconds = max(0.0, tat - now - (rate.burst - 1) * rate.interval) if needed < demand.needed else 0.0
    return Taken(requests, retry_seconds, tat)
