"""Rate limit for repeated bad credentials (client-6)."""

import pytest

from services.facade.auth import login_throttle
from services.facade.auth.login_throttle import LoginRateLimiter

A, B, C = "192.0.2.1", "192.0.2.2", "192.0.2.3"


def _shown(failed: LoginRateLimiter, address: str, times: int) -> list[bool]:
    """Show bad credentials so many times; tell of each whether it was slowed."""
    return [failed.add_failure(address) > 0 for _ in range(times)]


def test_the_limit_is_for_each_address() -> None:
    """After it, the seconds are told until the next may come: not the whole minute, as one in 20 s is allowed."""
    failed = LoginRateLimiter("3/minute")
    assert _shown(failed, A, 4) == [False, False, False, True]
    assert 1 <= failed.add_failure(A) <= 20
    assert failed.add_failure(B) == 0


def test_the_limit_is_told_before_one_is_counted() -> None:
    """As soon as the next one would be refused, and not before; that asks, and counts nothing."""
    failed = LoginRateLimiter("3/minute")
    reached = []
    for _ in range(3):
        reached.append(failed.is_limited(A))
        failed.add_failure(A)
    assert [*reached, failed.is_limited(A), failed.is_limited(A)] == [False, False, False, True, True]
    assert not failed.is_limited(B)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("", "socket", True),
        ("", "192.0.2.1", False),
    ],
)
def test_who_has_many_addresses_is_one(one: str, other: str, *, same: bool) -> None:
    """A network of IPv6 is handed out as a whole, and what is no address cannot be told apart."""
    failed = LoginRateLimiter("1/hour")
    assert failed.add_failure(one) == 0
    assert (failed.add_failure(other) > 0) is same


async def test_what_others_counted_is_added() -> None:
    """An address that is over the limit elsewhere is slowed here at its next try, and what was told is told once."""
    failed = LoginRateLimiter("3/minute")
    failed.add_failure(A)
    told = await failed.pending()
    assert told == {A: 1}
    failed.merge(told, {A: 80.0})
    assert 21 <= failed.add_failure(A) <= 40
    failed.add_failure(B)
    assert await failed.pending() == {B: 1}


async def test_what_is_counted_meanwhile_is_told_the_next_time() -> None:
    """A failure counted during a report is reported next, because it adds to the debt that others know."""
    failed = LoginRateLimiter("3/minute")
    failed.add_failure(A)
    told = await failed.pending()
    failed.add_failure(A)
    failed.merge(told, {A: 20.0})
    assert await failed.pending() == {A: 1}
    assert _shown(failed, A, 2) == [False, True]


async def test_what_could_not_be_told_is_told_again() -> None:
    """An outage of the lock service loses nothing; each facade counts for itself until then."""
    failed = LoginRateLimiter("3/minute")
    failed.add_failure(A)
    failed.merge(await failed.pending(), {})
    failed.add_failure(A)
    assert await failed.pending() == {A: 2}


async def test_of_what_is_paid_nobody_is_told() -> None:
    """It is forgotten, here as there."""
    failed = LoginRateLimiter("1000000/second")
    failed.add_failure(A)
    assert await failed.pending() == {}


def test_a_flood_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """If too many addresses are in debt, new addresses share one debt, and earlier addresses keep their own."""
    monkeypatch.setattr(login_throttle, "_MAX_ADDRESSES", 1)
    failed = LoginRateLimiter("2/hour")
    assert _shown(failed, A, 1) == [False]
    assert _shown(failed, B, 1) + _shown(failed, C, 2) == [False, False, True]
    assert _shown(failed, A, 2) == [False, True]
