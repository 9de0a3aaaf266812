"""Pauses between the attempts of a delivery."""

from datetime import timedelta

from services.locks.webhooks.worker import Retries


def test_pauses_double_until_the_longest() -> None:
    """A receiver that is down for an hour gets some ten requests, and one that is down for a day gets few more."""
    retries = Retries(jitter=0)
    pauses = [retries.pause(attempts) for attempts in range(1, 20)]
    assert pauses[:3] == [timedelta(seconds=5), timedelta(seconds=10), timedelta(seconds=20)]
    assert pauses[-1] == retries.pause(10**6) == timedelta(hours=4)
    made, attempts = timedelta(), 1
    while made < retries.window:
        made += retries.pause(attempts)
        attempts += 1
    assert 10 < attempts < 25


def test_pauses_vary() -> None:
    """The deliveries that one outage has failed are not all repeated at one moment."""
    retries = Retries()
    pauses = {retries.pause(1) for _ in range(50)}
    assert len(pauses) > 10
    assert min(pauses) >= timedelta(seconds=4)
    assert max(pauses) <= timedelta(seconds=6)
