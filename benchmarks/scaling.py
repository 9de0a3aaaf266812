"""Throughput and latency of a site by the number of its replicas: a simulation.

`python -m benchmarks.scaling` reads the measurements of `benchmarks.costs` and `benchmarks.rows` from the files that
they write, and prints the tables of docs/scaling.md. It measures nothing itself, and prints the same everywhere.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace

from benchmarks.costs import COSTS, Costs
from benchmarks.rows import ROWS
from benchmarks.site import HOUR, Model, Outcome, Site, demand

_REQUESTS = 12_000
_FEW = 2_000
_PEAK = 4
_BUSY = 0.6
_CONNECTIONS = 11
"""Of a replica of locks or storage: the pool, and the connection on which it listens."""
# Of one person: objects held, locks standing, locks released in 250 days of 8 hours.
_OBJECTS, _LOCKS, _LOCKED_A_YEAR = 2_000, 40, HOUR["unlock"] * 8 * 250
_LOCKING = {"lock": 1, "unlock": 1}
# More than can be served at once: they keep every copy busy.
_CLIENTS_OF_A_COPY = 20


class Tables:
    """The tables, for costs in units of which one takes so many milliseconds."""

    def __init__(self, costs: Mapping[str, Costs], unit_milliseconds: float) -> None:
        self._costs = costs
        self._unit = unit_milliseconds

    def _site(self, copies: int = 1, *, flush: float = 1.0) -> Site:
        """Return a site with so many storages, and what goes with them; a flush takes so many milliseconds."""
        need = demand(self._costs, HOUR)

        def beside(process: str) -> int:
            return max(1, round(copies * need[process] / need["storage"] + 0.49))

        return Site(
            facades=beside("facade"),
            locks=beside("locks"),
            storages=copies,
            flush=flush / self._unit,
            hop=0.1 / self._unit,
        )

    def _most(self, site: Site) -> Outcome:
        """Return what is answered at most."""
        model = Model(site, self._costs)
        clients = _CLIENTS_OF_A_COPY * max(site.facades, site.locks, site.storages)
        model.clients(clients)
        return model.run(max(_REQUESTS, 20 * clients))

    def _at(self, site: Site, rate: float) -> Outcome:
        model = Model(site, self._costs)
        model.arrivals(rate)
        return model.run(_REQUESTS)

    def _idle(self, site: Site, part: float) -> float:
        """Return within what time so large a part is answered of the requests that have the site to themselves."""
        model = Model(site, self._costs)
        model.clients(1)
        return model.run(_FEW).quantile(part)

    def compare(self, clients: int, cores: int, measured: float) -> None:
        """Tell how far the simulation is off what was measured on one host."""
        site = replace(self._site(), host_cores=cores, hop=0.0, mix={"batch_1": 1})
        model = Model(site, self._costs)
        model.clients(clients)
        rate = model.run(_REQUESTS).rate
        print(
            f"one host with {cores} cores, {clients} clients: simulated {rate / measured:.2f} times what was measured"
        )

    def demands(self) -> None:
        """Tell what a request takes."""
        print("\n| CPU of a request | facade | locks | storage | postgres |\n|---|---|---|---|---|")
        mixes: dict[str, Mapping[str, int]] = {"of a working hour": HOUR, "locking and unlocking": _LOCKING}
        for name, mix in mixes.items():
            print(f"| {name} | {' | '.join(f'{each:.1f}' for each in demand(self._costs, mix).values())} |")

    def sites(self, rows: Mapping[str, float], wal: Mapping[str, float]) -> None:
        """Tell what sites of some sizes need, at the hour when most is done; copies are busy for 0.6 of the time."""
        heads = ("people", "requests/s", "facades, locks, storages", "cores of Postgres", "connections", "index", "WAL")
        print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
        need, requests = demand(self._costs, HOUR), sum(HOUR.values())
        for people in (50, 500, 5_000, 50_000):
            rate = people * requests * _PEAK / 3600
            cores = {process: rate * units * self._unit / 1000 for process, units in need.items()}
            copies = {process: math.ceil(each / _BUSY) for process, each in cores.items()}
            connections = _CONNECTIONS * (copies["locks"] + copies["storage"])
            index = people * (
                _OBJECTS * (rows["objects"] + rows["contents"])
                + _LOCKS * rows["locks"]
                + _LOCKED_A_YEAR * rows["released_locks"]
            )
            written = people * _PEAK / 3600 * sum(HOUR[what] * wal[what] for what in ("lock", "unlock", "upload"))
            print(
                f"| {people:,} | {rate:,.0f} | {copies['facade']}, {copies['locks']}, {copies['storage']} "
                f"| {cores['postgres'] / _BUSY:.1f} | {connections} "
                f"| {index / 1e9:,.1f} GB | {written / 1e6:,.2f} MB/s |"
            )

    def copies(self) -> None:
        """Tell what more copies bring with 4 cores for Postgres."""
        print(
            "\n| facades, locks, storages | answered | facade | locks | storage | postgres |\n|---|---|---|---|---|---|"
        )
        one = self._most(self._site()).rate
        for count in (1, 2, 4, 8, 16, 32, 64):
            site = self._site(count)
            most = self._most(site)
            busy = " | ".join(f"{each:.0%}" for each in most.busy.values())
            print(f"| {site.facades}, {site.locks}, {site.storages} | {most.rate / one:.1f} | {busy} |")

    def loads(self) -> None:
        """Tell how long one waits, by how busy the busiest part is, and by how many copies share that."""
        print("\n| busiest part | storages | half take | one in 20 takes |\n|---|---|---|---|")
        for count in (1, 4):
            site = self._site(count)
            most = self._most(site).rate
            for part in (0.3, 0.5, 0.7, 0.8, 0.9):
                served = self._at(site, part * most)
                times = (f"{served.quantile(each) / self._idle(site, each):.1f}" for each in (0.5, 0.95))
                print(f"| {part:.0%} | {count} | {' | '.join(times)} |")

    def losses(self) -> None:
        """Tell what it does to the others that one of some storages is lost, all else being there."""
        print("\n| storages | busy before | after | one in 20 took | takes |\n|---|---|---|---|---|")
        for count in (2, 3, 4):
            whole = replace(self._site(count), facades=count, locks=count)
            most, idle = self._most(whole).rate, self._idle(whole, 0.95)
            for part in (0.3, 0.45, 0.6):
                busy = part * count / (count - 1)
                took = self._at(whole, part * most).quantile(0.95) / idle
                takes = self._at(replace(whole, storages=count - 1), part * most).quantile(0.95) / idle
                told = f"{takes:.1f}" if busy < 1 else "longer and longer"
                print(f"| {count} | {part:.0%} | {busy:.0%} | {took:.1f} | {told} |")

    def commits(self) -> None:
        """Tell what a slow commit does to those who lock, by the connections of each process."""
        print("\n| a commit takes | connections | locked at most | half take |\n|---|---|---|---|")
        quick = replace(self._site(), locks=4, facades=4, mix=_LOCKING)
        most, idle = self._most(quick).rate, self._idle(quick, 0.5)
        for milliseconds in (1, 5, 20, 80):
            for pool in (2, 10):
                site = replace(quick, pool=pool, flush=milliseconds / self._unit)
                share = self._most(site).rate / most
                takes = self._at(site, 0.5 * share * most).quantile(0.5) / idle
                print(f"| {milliseconds} ms | {pool} | {share:.0%} | {takes:.1f} |")


def main() -> None:
    """Simulate and print."""
    told = json.loads(COSTS.read_text())
    costs = {name: Costs(**cost) for name, cost in told["costs"].items()}
    tables = Tables(costs, told["unit_milliseconds"])
    measured = told["measured"]
    tables.compare(measured["clients"], measured["cores"], measured["requests_in_a_unit"])
    tables.demands()
    tables.sites(**json.loads(ROWS.read_text()))
    for table in (tables.copies, tables.loads, tables.losses, tables.commits):
        table()


if __name__ == "__main__":
    main()
