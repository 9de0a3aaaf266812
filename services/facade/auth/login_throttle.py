"""Rate limiter for addresses that repeatedly present bad credentials (client-6)."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice

from limits import parse
from towpath.access.v1 import access_service_pb2

from services.common.client_addresses import OVERFLOW_KEY, limit_key
from services.common.concurrency.periodic import run_periodically
from services.common.lifecycle import running
from services.facade.clients.services import ServiceClients
from services.facade.web.error_reasons import invalid_reply

_MAX_ADDRESSES = 10_000
_MAX_SHARED = 1_000
# Bounds how often counts are written, however many clients guess.
_INTERVAL_SECONDS = 1.0
# The tolerance for sums of seconds, because floating-point sums are not exact.
_ROUNDING_SECONDS = 1e-6


class LoginRateLimiter:
    """Counts bad credentials: with the limit `10/minute` an address may present ten, and then one every six seconds.

    Each bad credential is a debt of `seconds_each`, paid off by time. The owner shares the counts with the other
    facades: `pending` returns the counts that are not shared yet, and `merge` takes over the debts of all facades.
    """

    def __init__(self, limit: str) -> None:
        parsed = parse(limit)
        self._window = float(parsed.get_expiry())
        self.seconds_each = self._window / parsed.amount
        """The debt of one bad credential, in seconds."""
        self._theoretical_arrival: dict[str, float] = {}
        self._pending: dict[str, int] = {}
        self._has_pending = asyncio.Event()

    def add_failure(self, address: str) -> int:
        """Count a bad credential and return 0; at the limit, only return the whole seconds until a retry."""
        now, debtor = time.monotonic(), limit_key(address)
        if debtor not in self._theoretical_arrival and len(self._theoretical_arrival) >= _MAX_ADDRESSES:
            # Overflow bucket, so that a flood of addresses cannot exhaust memory.
            debtor = OVERFLOW_KEY
        paid_at = max(now, self._theoretical_arrival.get(debtor, now)) + self.seconds_each
        if (seconds := paid_at - now - self._window) > _ROUNDING_SECONDS:
            return max(1, math.ceil(seconds))
        self._theoretical_arrival[debtor] = paid_at
        self._pending[debtor] = self._pending.get(debtor, 0) + 1
        self._has_pending.set()
        return 0

    def is_limited(self, address: str) -> bool:
        """Return whether the limit is reached, so that a further bad credential would not be counted."""
        paid_at = self._theoretical_arrival.get(limit_key(address))
        return paid_at is not None and paid_at + self.seconds_each - time.monotonic() - self._window > _ROUNDING_SECONDS

    async def pending(self) -> Mapping[str, int]:
        """Wait until something is counted; return the counts not shared yet, of at most 1,000 addresses."""
        await self._has_pending.wait()
        self._has_pending.clear()
        self._forget_expired()
        return dict(islice(self._pending.items(), _MAX_SHARED))

    def merge(self, counts: Mapping[str, int], debts: Mapping[str, float]) -> None:
        """Take over the total debts of these addresses, in seconds; `counts` are part of them."""
        now = time.monotonic()
        for debtor, seconds in debts.items():
            left = self._pending.pop(debtor, 0) - counts.get(debtor, 0)
            if left > 0:
                self._pending[debtor] = left
            self._theoretical_arrival[debtor] = now + seconds + max(0, left) * self.seconds_each
        if self._pending:
            self._has_pending.set()

    def _forget_expired(self) -> None:
        now = time.monotonic()
        self._theoretical_arrival = {
            debtor: paid_at for debtor, paid_at in self._theoretical_arrival.items() if paid_at > now
        }
        self._pending = {
            debtor: count for debtor, count in self._pending.items() if debtor in self._theoretical_arrival
        }


@asynccontextmanager
async def synchronised(login_limiter: LoginRateLimiter, clients: ServiceClients) -> AsyncIterator[LoginRateLimiter]:
    """Share the counts with the other facades within seconds, and take over theirs, until the block ends."""
    sync = partial(_sync, login_limiter, clients)
    async with running(run_periodically(sync, _INTERVAL_SECONDS, trouble="failed logins not told to other facades")):
        yield login_limiter


async def _sync(login_limiter: LoginRateLimiter, clients: ServiceClients) -> None:
    counts = await login_limiter.pending()
    debts: Mapping[str, float] = {}
    try:
        if counts:
            debts = await _owed(clients, counts, login_limiter.seconds_each)
    finally:
        # Counts that could not be shared stay pending; meanwhile this facade limits by its own counts.
        login_limiter.merge(counts, debts)


async def _owed(clients: ServiceClients, counts: Mapping[str, int], seconds_each: float) -> Mapping[str, float]:
    """Report counts to the lock service; return the resulting debts of their addresses, in seconds."""
    request = access_service_pb2.CountFailedLoginsRequest(seconds_each=seconds_each)
    for address, count in counts.items():
        request.failed.add(address=address, count=count)
    reply = await clients.locks.call(clients.access_stub.CountFailedLogins, request)
    if len(reply.debt_seconds) != len(counts):
        raise invalid_reply("CountFailedLogins", "the reply lacks addresses")
    return dict(zip(counts, reply.debt_seconds, strict=True))
