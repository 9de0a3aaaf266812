"""How addresses that show bad credentials again and again are slowed (client row 6)."""

import asyncio
import math
import time
from collections.abc import Mapping
from itertools import islice

from limits import parse

from services.facade.web.addresses import UNKNOWN, holder_of

_MOST_ADDRESSES = 10_000
_MOST_TOLD = 1_000
# Sums of seconds are not exact.
_ROUNDING_SECONDS = 1e-6


class FailedLogins:
    """Counts bad credentials; of a limit such as `10/minute` an address may show ten, and then one every six seconds.

    Each is a debt of so many seconds, which time pays off. What is counted here is told to the other facades by its
    owner: `untold` says what, and `settle` takes what they know together.
    """

    def __init__(self, limit: str) -> None:
        parsed = parse(limit)
        self._window = float(parsed.get_expiry())
        self.seconds_each = self._window / parsed.amount
        """The debt of one bad credential."""
        self._paid_at: dict[str, float] = {}
        self._untold: dict[str, int] = {}
        self._wanted = asyncio.Event()

    def count(self, address: str) -> int:
        """Count one; return 0, or where the limit is reached, after how many whole seconds to come again."""
        now, debtor = time.monotonic(), holder_of(address)
        if debtor not in self._paid_at and len(self._paid_at) >= _MOST_ADDRESSES:
            # A flood fills no memory.
            debtor = UNKNOWN
        paid_at = max(now, self._paid_at.get(debtor, now)) + self.seconds_each
        if (seconds := paid_at - now - self._window) > _ROUNDING_SECONDS:
            return max(1, math.ceil(seconds))
        self._paid_at[debtor] = paid_at
        self._untold[debtor] = self._untold.get(debtor, 0) + 1
        self._wanted.set()
        return 0

    def is_reached(self, address: str) -> bool:
        """Tell whether the limit is reached: one more would not be counted."""
        paid_at = self._paid_at.get(holder_of(address))
        return paid_at is not None and paid_at + self.seconds_each - time.monotonic() - self._window > _ROUNDING_SECONDS

    async def untold(self) -> Mapping[str, int]:
        """Wait until something is counted; return how much of that nobody was told yet, by address."""
        await self._wanted.wait()
        self._wanted.clear()
        self._forget_paid()
        return dict(islice(self._untold.items(), _MOST_TOLD))

    def settle(self, told: Mapping[str, int], debts: Mapping[str, float]) -> None:
        """Take over what these addresses owe in all, in seconds, now that what was `told` is in there."""
        now = time.monotonic()
        for debtor, seconds in debts.items():
            left = self._untold.pop(debtor, 0) - told.get(debtor, 0)
            if left > 0:
                self._untold[debtor] = left
            self._paid_at[debtor] = now + seconds + max(0, left) * self.seconds_each
        if self._untold:
            self._wanted.set()

    def _forget_paid(self) -> None:
        now = time.monotonic()
        self._paid_at = {debtor: paid_at for debtor, paid_at in self._paid_at.items() if paid_at > now}
        self._untold = {debtor: count for debtor, count in self._untold.items() if debtor in self._paid_at}
