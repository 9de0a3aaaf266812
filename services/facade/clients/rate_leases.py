"""Requests that this facade has taken from the rates of users and tokens, which all facades share.

The lock service keeps the rates (AccessService.TakeRate). All requests that wait at the same time share a call, and a
call takes some more for those to come, as a lease of half a second. A refusal counts for all requests of its time.
"""

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from towpath.access.v1 import access_service_pb2 as pb
from towpath.access.v1.access_service_pb2_grpc import AccessServiceStub

from services.common.concurrency.batcher import Batcher
from services.common.concurrency.circuit_breaker import CircuitBreaker
from services.common.errors import ServiceError
from services.common.observability.logs import get_logger
from services.common.rpc.client import ServiceClient
from services.facade.web.error_reasons import invalid_reply

# With the burst of the rates, this is how far the requests of a minute may be over a rate: 4.2 % of 600/min.
_LEASE_SECONDS = 0.5
# Bounds the calls of this facade: the first request of a while is answered at once, and many share the next call.
_INTERVAL_SECONDS = 0.02
# Bounds the calls for a holder that is over its rate; what is not taken meanwhile can be taken afterwards.
_MIN_REFUSAL_SECONDS = 0.1
# The least time from which the requests of a lease are estimated.
_MIN_OBSERVED_SECONDS = 0.05
_MAX_LEASES = 10_000
_MAX_BATCH = 1_000
_DEADLINE_SECONDS = 2.0
_OUTAGE_SECONDS = 1.0
_HOUR_SECONDS = 3_600

_log = get_logger(__name__)


class Holder(NamedTuple):
    """A user or a token, and the limit of its requests per hour."""

    is_token: bool
    id: int
    limit: int


@dataclass
class Lease:
    """Requests of a holder that this facade may let through, and what it knows about those to come."""

    left: int = 0
    ends_at: float = -math.inf
    refused_until: float = -math.inf
    asked: int = 0
    """The requests since `observed_from`, by which the next lease is estimated."""
    observed_from: float = 0.0

    def use(self, now: float) -> bool:
        """Use one request of the lease, and return whether there was one."""
        if not self.left or now >= self.ends_at:
            return False
        self.left -= 1
        return True

    def add(self, requests: int, ends_at: float, now: float) -> None:
        """Add requests, beside those that another call has taken at the same time; the earlier end counts for all."""
        if not self.left or now >= self.ends_at:
            self.left, self.ends_at = 0, ends_at
        self.left += requests
        self.ends_at = min(self.ends_at, ends_at)

    def ahead(self, limit: int, now: float) -> int:
        """Return the requests that will probably come during the next lease, and begin to observe anew."""
        observed = max(_MIN_OBSERVED_SECONDS, now - self.observed_from)
        expected = self.asked * _LEASE_SECONDS / observed
        self.asked, self.observed_from = 0, now
        return int(min(expected, limit * _LEASE_SECONDS / _HOUR_SECONDS))


class RateLeases:
    """Takes requests from rates. While the lock service does not answer, every request passes. Its owner closes it."""

    def __init__(self, locks: ServiceClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._locks = locks
        self._clock = clock
        self._stub = AccessServiceStub(locks.channel)
        self._leases: OrderedDict[Holder, Lease] = OrderedDict()
        self._batcher = Batcher(self._take_all, max_batch=_MAX_BATCH, interval_seconds=_INTERVAL_SECONDS, clock=clock)
        self._outage = CircuitBreaker(_OUTAGE_SECONDS)

    async def take(self, holder: Holder) -> float:
        """Take one request and return 0; over the limit, only return the seconds until a retry."""
        lease = self._lease(holder)
        lease.asked += 1
        if lease.use(self._clock()) or self._outage.is_open:
            return 0.0
        if (seconds := lease.refused_until - self._clock()) > 0:
            return seconds
        return await self._batcher.submit(holder)

    def give_back(self, holder: Holder) -> None:
        """Give back a request that was taken a moment ago and not made; the next one of the holder uses it."""
        now = self._clock()
        self._lease(holder).add(1, now + _LEASE_SECONDS, now)

    async def close(self) -> None:
        """Cancel the calls in flight."""
        await self._batcher.close()

    def _lease(self, holder: Holder) -> Lease:
        lease = self._leases.get(holder)
        if lease is None:
            lease = self._leases[holder] = Lease(observed_from=self._clock())
            if len(self._leases) > _MAX_LEASES:
                self._leases.popitem(last=False)
        else:
            self._leases.move_to_end(holder)
        return lease

    async def _take_all(self, holders: Sequence[Holder]) -> Sequence[float]:
        """Take one request for each entry; some leases may have been filled, or refused, since it began to wait."""
        answers: dict[int, float] = {}
        waiting: Counter[Holder] = Counter()
        for at, holder in enumerate(holders):
            lease = self._lease(holder)
            if lease.use(self._clock()):
                answers[at] = 0.0
            elif (seconds := lease.refused_until - self._clock()) > 0:
                answers[at] = seconds
            else:
                waiting[holder] += 1
        taken = await self._ask(waiting) if waiting else {}
        for at, holder in enumerate(holders):
            if at not in answers:
                requests, seconds = taken[holder]
                answers[at] = 0.0 if requests else seconds
                taken[holder] = max(0, requests - 1), seconds
        return [answers[at] for at in range(len(holders))]

    async def _ask(self, waiting: Counter[Holder]) -> dict[Holder, tuple[int, float]]:
        """Return the requests of each holder that pass, and the seconds until a retry for the others."""
        now = self._clock()
        request = pb.TakeRateRequest()
        for holder, needed in waiting.items():
            request.holders.add(
                id=holder.id,
                is_token=holder.is_token,
                requests_per_hour=holder.limit,
                needed=needed,
                ahead=self._lease(holder).ahead(holder.limit, now),
            )
        try:
            reply = await self._locks.call(self._stub.TakeRate, request, deadline=_DEADLINE_SECONDS)
            if len(reply.taken) != len(waiting):
                raise invalid_reply("TakeRate", "the reply lacks holders")
        except ServiceError as error:
            _log.warning("rates are not known", status=error.status.name, message=error.message)
            self._outage.trip()
            return {holder: (needed, 0.0) for holder, needed in waiting.items()}
        passed = {}
        for (holder, needed), taken in zip(waiting.items(), reply.taken, strict=True):
            lease, seconds = self._lease(holder), max(_MIN_REFUSAL_SECONDS, taken.retry_seconds)
            if taken.requests < needed:
                lease.refused_until = self._clock() + seconds
            elif taken.requests > needed:
                lease.add(taken.requests - needed, now + _LEASE_SECONDS, self._clock())
            passed[holder] = min(needed, taken.requests), seconds
        return passed
