"""The simulation of benchmarks/network.py against what is known of queues without it."""

import random
import statistics
from collections.abc import Callable

import pytest

from benchmarks.network import Activity, Disk, Place, Simulation


def _mean_stay(*, servers: int, load: float, length: Callable[[random.Random], float]) -> float:
    """Return how long one stays on average, waiting included, where work of mean length 1 comes at random."""
    simulation, numbers = Simulation(), random.Random(7)  # noqa: S311 - it draws times, not secrets
    place, stays = Place(simulation, servers), list[float]()

    def work() -> Activity:
        came = simulation.now
        yield from place.work(length(numbers))
        stays.append(simulation.now - came)

    def arrive() -> Activity:
        while True:
            yield numbers.expovariate(load * servers)
            simulation.start(work())

    simulation.start(arrive())
    simulation.run(lambda: len(stays) >= 60_000)
    assert place.busy / simulation.now / servers == pytest.approx(load, rel=0.03)
    return statistics.mean(stays)


@pytest.mark.parametrize(
    ("servers", "random_length", "expected"),
    [
        # 1 / (1 - load).
        (1, True, 10 / 3),
        # Half of the wait, as Pollaczek and Khinchine say of work that is always as long.
        (1, False, 1 + 7 / 6),
        # Erlang's C is 0.5765 for 2 servers that are busy for 0.7 of the time.
        (2, True, 1 + 0.5765 / 0.6),
    ],
)
def test_waiting_is_as_theory_says(servers: int, random_length: bool, expected: float) -> None:
    """One or two servers, busy for seven tenths of the time."""

    def length(numbers: random.Random) -> float:
        return numbers.expovariate(1) if random_length else 1.0

    assert _mean_stay(servers=servers, load=0.7, length=length) == pytest.approx(expected, rel=0.05)


def test_a_flush_is_for_all_that_wait_when_it_begins() -> None:
    """A flush does not cover a change that arrives during it; all of these changes share the next flush."""
    simulation = Simulation()
    disk, ended = Disk(simulation, 10.0), dict[str, float]()

    def commit(name: str) -> Activity:
        yield disk
        ended[name] = simulation.now

    for name, after in (("first", 0.0), ("second", 1.0), ("third", 9.0), ("last", 40.0)):
        simulation.start(commit(name), after=after)
    simulation.run(lambda: False)
    assert ended == {"first": 10.0, "second": 20.0, "third": 20.0, "last": 50.0}
