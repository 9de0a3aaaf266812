"""Leases of requests, which calls at the same time fill together, and the rate that all facades share by them."""

import asyncio
import random
from collections.abc import Sequence
from typing import cast
from unittest.mock import MagicMock

import pytest
from towpath.access.v1 import access_service_pb2 as pb

from services.common.rpc.client import ServiceClient
from services.facade.clients.rate_leases import Holder, Lease, RateLeases
from services.locks.access.gcra import Demand, Rate, take
from tests.support.virtual_time import Clock, run_in_virtual_time

NOW = 1_000.0
FACADES = 3
PER_SECOND = 20
BURST = 2 * PER_SECOND
USER = Holder(is_token=False, id=1, limit=PER_SECOND * 3600)


def _used(lease: Lease) -> int:
    used = 0
    while lease.use(NOW):
        used += 1
    return used


def test_calls_at_the_same_time_fill_one_lease() -> None:
    """Both have taken their requests from the rate: none of them is lost, and none is used twice."""
    lease = Lease()
    lease.add(3, NOW + 60, NOW)
    lease.add(2, NOW + 30, NOW)
    assert _used(lease) == 5


def test_requests_of_an_ended_lease_are_not_used() -> None:
    """Others may have had them meanwhile, so that a facade that wakes up late lets nothing through for them."""
    lease = Lease()
    lease.add(3, NOW - 1, NOW)
    assert _used(lease) == 0
    lease.add(2, NOW + 60, NOW)
    assert _used(lease) == 2


def test_the_earlier_end_counts() -> None:
    """No request of a lease is used later than its own end."""
    lease = Lease()
    lease.add(1, NOW + 60, NOW)
    lease.add(1, NOW - 1, NOW)
    assert _used(lease) == 0


class _Locks:
    """A lock service that keeps the rate of one holder, and answers each call after some milliseconds."""

    channel = MagicMock()

    def __init__(self, clock: Clock) -> None:
        self.calls = 0
        self._clock = clock
        self._tat = clock()

    async def call(self, _method: object, request: pb.TakeRateRequest, *, deadline: float) -> pb.TakeRateResponse:
        """Take requests from the rate."""
        assert deadline > 0
        self.calls += 1
        [holder] = request.holders
        demand = Demand(holder.needed, holder.ahead)
        taken = take(Rate(holder.requests_per_hour), demand, tat=self._tat, now=self._clock())
        self._tat = taken.tat
        await asyncio.sleep(0.004)
        answer = pb.TakeRateResponse()
        answer.taken.add(requests=taken.requests, retry_seconds=taken.retry_seconds)
        return answer


def _facades(clock: Clock) -> tuple[_Locks, list[RateLeases]]:
    locks = _Locks(clock)
    return locks, [RateLeases(cast("ServiceClient", locks), clock=clock) for _ in range(FACADES)]


@pytest.mark.parametrize("split", [(8, 8, 8), (20, 2, 2), (24, 0, 0)], ids=["even", "uneven", "one"])
def test_a_load_over_the_rate_gets_all_of_it_and_no_more(split: Sequence[int]) -> None:
    """Within 5 % of the rate and the burst: what is refused costs nothing, and no facade has a share of its own."""
    seconds = 10.0

    async def load(clock: Clock) -> list[float]:
        _, facades = _facades(clock)
        passes: list[float] = []

        async def one(leases: RateLeases) -> None:
            while clock() < seconds:
                if await leases.take(USER):
                    await asyncio.sleep(0.05)
                else:
                    passes.append(clock())
                    await asyncio.sleep(0.01)

        await asyncio.gather(*(one(facades[at]) for at, share in enumerate(split) for _ in range(share)))
        return passes

    passes = run_in_virtual_time(load)
    assert passes == sorted(passes)
    assert len(passes) <= BURST + PER_SECOND // 2 + PER_SECOND * seconds
    # A request that is late is made up for, and one that is lost never is: so it is missing at every later moment.
    missing = min(BURST + PER_SECOND * at - number for number, at in list(enumerate(passes, 1))[len(passes) // 2 :])
    assert missing <= 0.05 * (BURST + PER_SECOND * seconds)
    assert passes[-1] > seconds - 1


@pytest.mark.parametrize("split", ["in turn", "at random", "one"])
def test_an_even_load_within_the_rate_passes(split: str) -> None:
    """98 % of the rate, for longer than the burst lasts: none is refused, wherever the requests arrive."""

    async def load(clock: Clock) -> list[float]:
        _, facades = _facades(clock)
        dice = random.Random(7)  # noqa: S311 - no secret

        async def one(number: int) -> float:
            await asyncio.sleep(number / (0.98 * PER_SECOND))
            at = {"in turn": number % FACADES, "at random": dice.randrange(FACADES), "one": 0}[split]
            return await facades[at].take(USER)

        return await asyncio.gather(*map(one, range(20 * PER_SECOND)))

    assert set(run_in_virtual_time(load)) == {0.0}


def test_requests_share_calls() -> None:
    """The lock service is asked for many requests together, and not again while a refusal counts."""

    async def load(clock: Clock) -> tuple[int, int, int]:
        locks, (leases, *_) = _facades(clock)
        often, seldom = USER._replace(limit=3_600_000), USER._replace(id=2, limit=10)
        for _ in range(20):
            assert set(await asyncio.gather(*(leases.take(often) for _ in range(10)))) == {0.0}
        shared = locks.calls
        refused = await asyncio.gather(*(leases.take(seldom) for _ in range(11)))
        assert sum(seconds > 0 for seconds in refused) > 0
        before = locks.calls
        refused = await asyncio.gather(*(leases.take(seldom) for _ in range(100)))
        assert all(refused)
        return shared, before, locks.calls

    shared, before, after = run_in_virtual_time(load)
    assert shared <= 20
    assert after == before
