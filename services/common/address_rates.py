"""Rates of single addresses, by the generic cell rate algorithm, in the memory of one process."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

_MAX_HOLDERS = 10_000
# The tolerance for sums of seconds, because floating-point sums are not exact.
_ROUNDING_SECONDS = 1e-6


class AddressRates:
    """Rates at which addresses take something: one each `interval` seconds, and after a pause `burst` at once.

    A holder of a rate is an address, with what else tells rates apart. This process counts alone, so that a refusal
    costs no other service anything. Of more than 10,000 holders, those that have taken nothing for the longest begin
    again.
    """

    def __init__(self, *, interval: float, burst: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._tolerance = (max(1.0, burst) - 1) * interval
        self._clock = clock
        # The moment at which all that a holder has taken is paid off, that of the latest one last.
        self._paid_at: OrderedDict[Hashable, float] = OrderedDict()

    def wait(self, holder: Hashable) -> float:
        """Return the seconds until there is one to take; 0 if there is one."""
        seconds = self._paid_at.get(holder, 0.0) - self._clock() - self._tolerance
        return seconds if seconds > _ROUNDING_SECONDS else 0.0

    def take(self, holder: Hashable) -> float:
        """Take one and return 0, or only return the seconds until there is one to take."""
        if seconds := self.wait(holder):
            return seconds
        now = self._clock()
        self._paid_at[holder] = max(now, self._paid_at.get(holder, now)) + self._interval
        self._paid_at.move_to_end(holder)
        if len(self._paid_at) > _MAX_HOLDERS:
            self._paid_at.popitem(last=False)
        return 0.0
