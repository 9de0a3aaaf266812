"""CPU cost of each request in each process, in multiples of the facade's cost of GET /healthz.

`python -m benchmarks.costs` runs a `towpath up`, sends it one kind of request after the other, prints a table, and
writes benchmarks/costs.json, an input of `benchmarks.scaling`.
"""

import argparse
import asyncio
import hashlib
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from benchmarks.work import Work
from tests.support.http import Client
from tests.support.stack import Stack, running_stack

COSTS = Path(__file__).with_suffix(".json")
PROCESSES = ("facade", "locks", "storage", "postgres")
_CLIENTS = 8
_MEBIBYTE = 1024 * 1024

Ask = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Costs:
    """CPU of one request by process, and of the client that asks, in units of a GET /healthz in the facade."""

    facade: float
    locks: float
    storage: float
    postgres: float
    client: float


class _Clock:
    """The CPU time of the processes of a stack."""

    def __init__(self, stack: Stack) -> None:
        self._processes = {name: stack.service(name) for name in PROCESSES}
        # A connection to Postgres is a process, and may come only with the second request.
        self._ended: dict[int, float] = {}

    def read(self) -> dict[str, float]:
        """Return the seconds of each process up to now, and of this one as `client`."""
        own = time.process_time()
        return {**{name: self._of(name) for name in PROCESSES}, "client": own}

    def _of(self, name: str) -> float:
        process = self._processes[name]
        if name == "postgres":
            for each in (process, *process.children(recursive=True)):
                self._ended[each.pid] = cpu_seconds(each)
            return sum(self._ended.values())
        return cpu_seconds(process)


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU time of a process; the system counts that of each thread in nanoseconds."""
    tasks = Path(f"/proc/{process.pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def services_cpu_seconds(stack: Stack) -> dict[str, float]:
    """Return the CPU time of each of PROCESSES up to now, of all processes of a service that run."""
    return {name: sum(map(_with_children, stack.services(name))) for name in PROCESSES}


def _with_children(process: psutil.Process) -> float:
    spent = 0.0
    for each in (process, *process.children(recursive=True)):
        # A process of Postgres that has just ended took next to nothing.
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            spent += cpu_seconds(each)
    return spent


async def _cost(clock: _Clock, ask: Ask, seconds: float, *, most: int | None = None) -> dict[str, float]:
    """Ask one after the other for about so long; return the CPU seconds of each request."""
    await ask()
    before, count, end = clock.read(), 0, time.monotonic() + seconds
    while time.monotonic() < end and (most is None or count < most - 1):
        count += 1
        await ask()
    after = clock.read()
    return {name: (after[name] - before[name]) / count for name in after}


_MANY = ("batch_1", "batch_100", "verify_locks", "lock", "unlock", "batch_upload", "upload", "verify", "download")


async def _measure(stack: Stack, seconds: float, mebibytes: int) -> dict[str, object]:
    clock = _Clock(stack)
    async with Client(stack.base_url, "alice", stack.tokens["alice"]) as client:
        work = Work(client, stack.origin)
        await work.prepare()
        unit = (await _cost(clock, work.healthz, seconds))["facade"]
        costs = {}
        for name in _MANY:
            spent = await _cost(clock, getattr(work, name), seconds, most=work.left(name))
            costs[name] = Costs(**{process: value / unit for process, value in spent.items()})
        rate = await _rate(work, seconds)
        return {
            "costs": {name: asdict(each) for name, each in costs.items()},
            "measured": {"clients": _CLIENTS, "cores": os.cpu_count(), "requests_in_a_unit": rate * unit},
            "bytes": await _bytes(clock, client, mebibytes),
            "unit_milliseconds": unit * 1000,
        }


async def _rate(work: Work, seconds: float) -> float:
    """Return how many batches of one object eight clients get answered in a second, all on this host."""
    end, count = time.monotonic() + 2 * seconds, 0

    async def ask() -> None:
        nonlocal count
        while time.monotonic() < end:
            await work.batch_1()
            count += 1

    began = time.monotonic()
    await asyncio.gather(*(ask() for _ in range(_CLIENTS)))
    return count / (time.monotonic() - began)


async def _bytes(clock: _Clock, client: Client, mebibytes: int) -> dict[str, dict[str, float]]:
    """Return the CPU of a relayed byte by process, as a multiple of what SHA-256 takes for it."""
    piece = os.urandom(_MEBIBYTE)
    digest, began = hashlib.sha256(), time.process_time()
    for _ in range(mebibytes):
        digest.update(piece)
    hashing, size = time.process_time() - began, mebibytes * _MEBIBYTE

    async def body() -> AsyncIterator[bytes]:
        for _ in range(mebibytes):
            yield piece

    async def up() -> None:
        action = await client.action("upload", digest.hexdigest(), size)
        assert action is not None
        (await client.put(action, body(), size)).raise_for_status()

    async def down() -> None:
        action = await client.action("download", digest.hexdigest(), size)
        assert action is not None
        async with client.http.stream("GET", action.href, headers=action.header) as answer:
            assert sum([len(each) async for each in answer.aiter_raw()]) == size

    found = {}
    for name, transfer in (("upload", up), ("download", down)):
        before = clock.read()
        await transfer()
        after = clock.read()
        found[name] = {process: (after[process] - before[process]) / hashing for process in ("facade", "storage")}
    return found


def _print(told: dict[str, object]) -> None:
    costs, bytes_, measured = (told[name] for name in ("costs", "bytes", "measured"))
    assert isinstance(costs, dict)
    assert isinstance(bytes_, dict)
    assert isinstance(measured, dict)
    print(f"| request | {' | '.join(PROCESSES)} |\n|---|{'---|' * len(PROCESSES)}")
    for name, cost in costs.items():
        print(f"| {name} | {' | '.join(f'{cost[process]:.1f}' for process in PROCESSES)} |")
    print("\n| a byte, relayed | facade | storage |\n|---|---|---|")
    for name, cost in bytes_.items():
        print(f"| {name} | {cost['facade']:.1f} | {cost['storage']:.1f} |")
    print(f"\n{measured}; the unit, GET /healthz, takes {told['unit_milliseconds']:.2f} ms here")


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each kind of request")
    parser.add_argument("--mebibytes", type=int, default=512, help="of the object that is relayed")
    arguments = parser.parse_args()
    # The bytes are to be relayed.
    with running_stack(environment={"TOWPATH_SHARED_STORAGE_PATH": "", "TOWPATH_FACADES": "1"}) as stack:
        told = asyncio.run(_measure(stack, arguments.seconds, arguments.mebibytes))
    COSTS.write_text(json.dumps(told, indent=2) + "\n")
    _print(told)


if __name__ == "__main__":
    main()
