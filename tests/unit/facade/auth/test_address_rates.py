"""Rates of the requests of addresses that show no credentials."""

import pytest

from services.facade.auth import address_rates
from services.facade.auth.address_rates import AddressRates

ONE, OTHER = "198.51.100.1", "198.51.100.2"


class _Time:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("per_hour", "burst", "interval"), [(1_200 * 60, 1_200, 0.05), (6, 10, 600.0)])
def test_a_minute_at_once_and_then_one_by_one(per_hour: int, burst: int, interval: float) -> None:
    """At least ten at once; what is refused costs nothing, and nothing of another address."""
    time = _Time()
    rates = AddressRates(per_hour, clock=time)
    assert [rates.take(ONE) for _ in range(burst)] == [0.0] * burst
    assert [rates.take(ONE) for _ in range(3)] == pytest.approx([interval] * 3)
    assert rates.take(OTHER) == 0.0
    time.now += interval
    assert rates.take(ONE) == 0.0
    assert rates.take(ONE) == pytest.approx(interval)


def test_without_a_limit_all_pass() -> None:
    """Whatever the number."""
    rates = AddressRates(0)
    assert not any(rates.take(ONE) for _ in range(10_000))


def test_many_addresses_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that has asked for nothing for the longest is forgotten, and none that goes on asking."""
    monkeypatch.setattr(address_rates, "_MAX_ADDRESSES", 2)
    rates = AddressRates(1, clock=_Time())
    for _ in range(10):
        assert not any(rates.take(address) for address in (OTHER, ONE))
    assert rates.take("198.51.100.3") == 0.0
    assert rates.take(ONE) > 0
    assert rates.take(OTHER) == 0.0
