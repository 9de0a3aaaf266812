"""Leases of requests, which calls at the same time fill together."""

import time

from services.facade.clients.rate_leases import Lease


def _used(lease: Lease) -> int:
    used = 0
    while lease.use():
        used += 1
    return used


def test_calls_at_the_same_time_fill_one_lease() -> None:
    """Both have taken their requests from the rate: none of them is lost, and none is used twice."""
    lease, now = Lease(), time.monotonic()
    lease.add(3, now + 60)
    lease.add(2, now + 30)
    assert _used(lease) == 5


def test_requests_of_an_ended_lease_are_not_used() -> None:
    """Others may have had them meanwhile, so that a facade that wakes up late lets nothing through for them."""
    lease, now = Lease(), time.monotonic()
    lease.add(3, now - 1)
    assert _used(lease) == 0
    lease.add(2, now + 60)
    assert _used(lease) == 2


def test_the_earlier_end_counts() -> None:
    """No request of a lease is used later than its own end."""
    lease, now = Lease(), time.monotonic()
    lease.add(1, now + 60)
    lease.add(1, now - 1)
    assert _used(lease) == 0
