"""A site of Towpath as a simulation sees it: its copies, the calls between them, Postgres and its disk."""

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from benchmarks.costs import Costs
from benchmarks.network import Activity, Disk, Place, Simulation

READS, WRITES = False, True
# Which calls the facade makes for a request, one after the other, and the transactions of each: services/facade and
# the services say so. Authenticate and CheckAccess come first where there is no token of an action.
_MAY = [("locks", [READS]), ("locks", [READS])]
CALLS: Mapping[str, list[tuple[str, list[bool]]]] = {
    "batch_1": [*_MAY, ("storage", [READS])],
    "batch_100": [*_MAY, ("storage", [READS])],
    "batch_upload": [*_MAY, ("storage", [READS])],
    "verify_locks": [*_MAY, ("locks", [READS])],
    "lock": [*_MAY, ("locks", [WRITES])],
    "unlock": [*_MAY, ("locks", [WRITES])],
    "upload": [("storage", [WRITES, WRITES])],
    "verify": [("storage", [READS])],
    "download": [("storage", [READS])],
}
# What a person does in an hour, as docs/scaling.md supposes: 6 pulls of 10 objects, 2 pushes of 5, 4 locks.
HOUR: Mapping[str, int] = {
    "batch_100": 6,
    "download": 60,
    "verify_locks": 2,
    "batch_upload": 2,
    "upload": 10,
    "verify": 10,
    "lock": 4,
    "unlock": 4,
}


@dataclass(frozen=True)
class Site:
    """Numbers of processes, and properties of their surroundings; times are in units of the costs."""

    facades: int = 1
    locks: int = 1
    storages: int = 1
    postgres_cores: int = 4
    pool: int = 10
    flush: float = 1.0
    hop: float = 0.2
    """From one process to the next."""
    host_cores: int | None = None
    """The number of cores that all processes share with their clients; None if each has its own."""
    mix: Mapping[str, int] = field(default_factory=lambda: HOUR)


@dataclass(frozen=True)
class Outcome:
    """Requests in a unit of time, the times of requests ascending, and how busy each part was, from 0 to 1."""

    rate: float
    times: list[float]
    busy: Mapping[str, float]

    def quantile(self, part: float) -> float:
        """Return within what time so large a part of the requests was answered."""
        return self.times[int(part * (len(self.times) - 1))]


class Model:
    """A site and its requests in a simulation."""

    def __init__(self, site: Site, costs: Mapping[str, Costs], seed: int = 1) -> None:
        self._site = site
        self._costs = costs
        self._random = random.Random(seed)  # noqa: S311 - it draws times, not secrets
        self.simulation = sim = Simulation()
        self._host = None if site.host_cores is None else Place(sim, site.host_cores)
        self._postgres = Place(sim, site.postgres_cores)
        self._disk = Disk(sim, site.flush)
        self._copies = {
            name: [Place(sim) for _ in range(count)]
            for name, count in (("facade", site.facades), ("locks", site.locks), ("storage", site.storages))
        }
        self._pools = {copy: Place(sim, site.pool) for name in ("locks", "storage") for copy in self._copies[name]}
        # As proxies and gRPC give them out: in turn.
        self._turns: dict[str, Iterator[Place]] = {
            name: itertools.cycle(copies) for name, copies in self._copies.items()
        }
        self.times: list[float] = []

    def _work(self, place: Place, mean: float) -> Activity:
        """Work for a random time: irregular work makes others wait longer, so waiting is not told too short."""
        seconds = self._random.expovariate(1 / mean) if mean else 0.0
        if self._host is None:
            yield from place.work(seconds)
            return
        yield place
        yield from self._host.work(seconds)
        place.leave()

    def request(self, name: str) -> Activity:
        """Serve one request of this kind, and note how long it took."""
        began, cost, calls = self.simulation.now, self._costs[name], CALLS[name]
        facade = next(self._turns["facade"])
        if self._host is not None:
            yield from self._host.work(self._random.expovariate(1 / cost.client))
        yield from self._work(facade, cost.facade / (len(calls) + 1))
        for service, transactions in calls:
            yield from self._call(cost, calls, service, transactions)
            yield from self._work(facade, cost.facade / (len(calls) + 1))
        self.times.append(self.simulation.now - began)

    def _call(
        self, cost: Costs, calls: list[tuple[str, list[bool]]], service: str, transactions: list[bool]
    ) -> Activity:
        own = getattr(cost, service) / sum(name == service for name, _ in calls)
        asked = cost.postgres / sum(len(each) for _, each in calls)
        copy = next(self._turns[service])
        yield self._site.hop
        yield from self._work(copy, own / 2)
        for writes in transactions:
            yield self._pools[copy]
            yield self._site.hop
            yield from self._work(self._postgres, asked)
            if writes:
                yield self._disk
            yield self._site.hop
            self._pools[copy].leave()
        yield from self._work(copy, own / 2)
        yield self._site.hop

    def _draw(self) -> str:
        return self._random.choices(list(self._site.mix), list(self._site.mix.values()))[0]

    def clients(self, count: int) -> None:
        """Add clients that ask again as soon as they are answered."""

        def client() -> Activity:
            while True:
                yield from self.request(self._draw())

        for _ in range(count):
            self.simulation.start(client())

    def arrivals(self, rate: float) -> None:
        """Add clients that come at random, so many in a unit of time, whoever else is there."""

        def arrive() -> Activity:
            while True:
                yield self._random.expovariate(rate)
                self.simulation.start(self.request(self._draw()))

        self.simulation.start(arrive())

    def run(self, requests: int) -> Outcome:
        """Serve so many requests; the first tenth is left out of the figures."""
        warm = requests // 10
        self.simulation.run(lambda: len(self.times) >= warm)
        began, before = self.simulation.now, self._busy()
        self.simulation.run(lambda: len(self.times) >= requests)
        passed = self.simulation.now - began
        counts = {name: len(copies) for name, copies in self._copies.items()} | {"postgres": self._site.postgres_cores}
        busy = {name: (value - before[name]) / passed / counts[name] for name, value in self._busy().items()}
        return Outcome((len(self.times) - warm) / passed, sorted(self.times[warm:]), busy)

    def _busy(self) -> dict[str, float]:
        return {name: sum(copy.busy for copy in copies) for name, copies in self._copies.items()} | {
            "postgres": self._postgres.busy
        }


def demand(costs: Mapping[str, Costs], mix: Mapping[str, int]) -> dict[str, float]:
    """Return the CPU of a request on average, in units, by process."""
    whole = sum(mix.values())
    return {
        process: sum(getattr(costs[name], process) * count for name, count in mix.items()) / whole
        for process in ("facade", "locks", "storage", "postgres")
    }
