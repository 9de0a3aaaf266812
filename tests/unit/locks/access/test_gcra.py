"""GCRA: any window has at most the burst and the rate, and an even load within the rate always passes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.locks.access.gcra import Demand, Rate, take

RATES = st.sampled_from([1, 7, 60, 1_000, 36_000, 3_600_000]).map(Rate)
ROUNDING = 1e-3
"""The tolerance, as a part of a request."""


@pytest.mark.parametrize(("per_hour", "burst"), [(1, 10), (60, 10), (18_000, 10), (36_000, 20), (3_600_000, 2_000)])
def test_the_burst_is_two_seconds_of_the_rate_and_at_least_ten(per_hour: int, burst: int) -> None:
    """A slow rate must not refuse the few requests that one command of a client makes at once."""
    rate = Rate(per_hour)
    assert rate.burst == burst
    taken = take(rate, Demand(needed=burst + 5), tat=0.0, now=1_000.0)
    assert taken.requests == burst


def test_a_refusal_tells_when_the_next_request_passes() -> None:
    """Not before, and not later."""
    rate = Rate(36_000)
    tat = take(rate, Demand(rate.burst), tat=0.0, now=0.0).tat
    refused = take(rate, Demand(1), tat=tat, now=0.03)
    assert (refused.requests, refused.tat) == (0, tat)
    assert refused.retry_seconds == pytest.approx(0.07)
    assert take(rate, Demand(1), tat=tat, now=0.03 + refused.retry_seconds - 0.01).requests == 0
    assert take(rate, Demand(1), tat=tat, now=0.03 + refused.retry_seconds).requests == 1


def test_a_clock_that_was_set_back_bars_nobody() -> None:
    """The wait is that of a burst that is used up, not the hour by which the clock differs."""
    rate = Rate(36_000)
    refused = take(rate, Demand(1), tat=3_600.0, now=0.0)
    assert refused.requests == 0
    assert refused.retry_seconds == pytest.approx(rate.interval)
    assert take(rate, Demand(1), tat=refused.tat, now=refused.retry_seconds).requests == 1


def test_what_is_missing_of_many_is_told_too() -> None:
    """Of more requests than are left, those that are left pass."""
    rate = Rate(36_000)
    taken = take(rate, Demand(25), tat=0.0, now=0.0)
    assert taken.requests == 20
    assert taken.retry_seconds == pytest.approx(0.1)


def test_requests_to_come_leave_half_of_the_burst_to_others() -> None:
    """No facade holds what another one needs, however much it would like."""
    rate, tat, taken = Rate(36_000), 0.0, []
    for _ in range(10):
        answer = take(rate, Demand(needed=0, ahead=1_000), tat=tat, now=0.0)
        tat = answer.tat
        taken.append(answer.requests)
    assert taken == [2, 2, 1, 1, 1, 0, 0, 0, 0, 0]
    assert take(rate, Demand(needed=13), tat=tat, now=0.0).requests == 13


@given(
    RATES,
    st.lists(
        st.tuples(st.floats(0, 3), st.integers(0, 50), st.integers(0, 50)),
        min_size=1,
        max_size=60,
    ),
)
def test_no_window_has_more_than_the_burst_and_the_rate(rate: Rate, steps: list[tuple[float, int, int]]) -> None:
    """Whoever asks, however often and for however many: steps are pauses, in seconds of the rate, with a demand."""
    now, tat = 0.0, 0.0
    given_at: list[tuple[float, int]] = []
    for pause, needed, ahead in steps:
        now += pause * min(60.0, rate.interval)
        taken = take(rate, Demand(needed, ahead), tat=tat, now=now)
        tat = taken.tat
        given_at.append((now, taken.requests))
    for first, (begin, _) in enumerate(given_at):
        passed = 0
        for end, requests in given_at[first:]:
            passed += requests
            assert passed <= rate.burst + (end - begin) / rate.interval + 0.1


@given(RATES, st.lists(st.floats(0, 0.98), min_size=1, max_size=200))
def test_an_even_load_within_the_rate_always_passes(rate: Rate, jitter: list[float]) -> None:
    """One request in each interval, anywhere in it."""
    tat = 0.0
    for number, part in enumerate(jitter):
        taken = take(rate, Demand(1), tat=tat, now=(number + part) * rate.interval)
        assert taken.requests == 1, number
        tat = taken.tat


@given(RATES, st.lists(st.tuples(st.floats(0, 0.98), st.integers(0, 100)), min_size=1, max_size=200))
def test_an_even_load_passes_though_others_take_ahead_what_they_never_use(
    rate: Rate, steps: list[tuple[float, int]]
) -> None:
    """Leases that end unused cost a part of the burst, and never a request."""
    tat = 0.0
    for number, (part, ahead) in enumerate(steps):
        now = (number + part) * rate.interval
        taken = take(rate, Demand(1, ahead), tat=tat, now=now)
        assert taken.requests >= 1, number
        tat = take(rate, Demand(0, ahead), tat=taken.tat, now=now).tat


@given(RATES, st.floats(0, 10))
def test_a_load_over_the_rate_gets_all_of_it(rate: Rate, seconds: float) -> None:
    """Nothing is lost by refusals: what was asked too early changes nothing."""
    tat, passed, steps = 0.0, 0, 2_000
    end = seconds * rate.interval
    for number in range(steps + 1):
        taken = take(rate, Demand(1), tat=tat, now=end * number / steps)
        tat = taken.tat
        passed += taken.requests
    least, most = (rate.burst + math.floor(seconds + rounding) for rounding in (0.0, 2 * ROUNDING))
    assert min(steps + 1, least) <= passed <= most
