"""Rates of single addresses."""

import pytest

from services.common import address_rates
from services.common.address_rates import AddressRates

ONE, OTHER = "198.51.100.1", "198.51.100.2"


class _Time:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("interval", "burst"), [(0.05, 1_200), (600.0, 10), (60.0, 1)])
def test_some_at_once_and_then_one_by_one(interval: float, burst: int) -> None:
    """A refusal takes nothing, and nothing is taken from another address."""
    time = _Time()
    rates = AddressRates(interval=interval, burst=burst, clock=time)
    assert [rates.take(ONE) for _ in range(burst)] == [0.0] * burst
    assert [rates.take(ONE) for _ in range(3)] == pytest.approx([interval] * 3)
    assert rates.take(OTHER) == 0.0
    time.now += interval
    assert rates.wait(ONE) == 0.0
    assert rates.take(ONE) == 0.0
    assert rates.take(ONE) == pytest.approx(interval)


def test_without_an_interval_all_pass() -> None:
    """Whatever the number."""
    rates = AddressRates(interval=0.0)
    assert not any(rates.take(ONE) for _ in range(10_000))


def test_many_addresses_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that has asked for nothing for the longest is forgotten, and none that goes on asking."""
    monkeypatch.setattr(address_rates, "_MAX_HOLDERS", 2)
    rates = AddressRates(interval=3_600.0, burst=10, clock=_Time())
    for _ in range(10):
        assert not any(rates.take(address) for address in (OTHER, ONE))
    assert rates.take("198.51.100.3") == 0.0
    assert rates.take(ONE) > 0
    assert rates.take(OTHER) == 0.0
