"""The requests of a minute that pass a rate of 600/min, over three facades of one `towpath up`.

`python -m benchmarks.rates` lets clients of one user ask for more than the rate, in several splits over the facades,
and then for a little less, and prints how many passed, and how many calls of the lock service that took. Each row has a
user of its own, who has the whole burst at its beginning.
"""

import argparse
import asyncio
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.http import Client
from tests.support.ports import free_address
from tests.support.second_facade import SecondFacade
from tests.support.stack import Stack, running_stack

_PER_MINUTE = 600
_REPOSITORY = "demo/assets"
# A client that was refused comes again after this time, whatever Retry-After says.
_PAUSE_SECONDS = 0.05
_SPLITS = {"evenly": (4, 4, 4), "most at one": (10, 1, 1), "all at one": (12, 0, 0)}
_WITHIN = 0.98


@dataclass(frozen=True)
class _Row:
    """The outcome of one load: statuses, the calls of the lock service, and the seconds."""

    statuses: Counter[int]
    calls: int
    seconds: float


@dataclass(frozen=True)
class _Site:
    stack: Stack
    facades: Sequence[str]
    metrics: str

    def add_user(self, name: str) -> str:
        """Add a user with the rate, and return its token."""
        self.stack.towpath("user", "add", name, "--rate", f"{_PER_MINUTE}/min")
        self.stack.towpath("grant", name, _REPOSITORY, "--role", "write")
        return str(self.stack.towpath("token", "add", name)["secret"])

    def calls(self) -> int:
        """Return the calls of TakeRate so far."""
        text = httpx.get(f"http://{self.metrics}/metrics", trust_env=False).text
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return sum(
            int(sample.value)
            for sample in samples
            if sample.name == "towpath_grpc_request_seconds_count" and sample.labels["method"].endswith("/TakeRate")
        )


@contextmanager
def _site() -> Iterator[_Site]:
    metrics = free_address()
    with (
        running_stack(environment={"TOWPATH_FACADES": "1", "TOWPATH_LOCKS_METRICS_LISTEN": metrics}) as stack,
        tempfile.TemporaryDirectory(prefix="towpath-rates-") as folder,
    ):
        others = [SecondFacade(stack, free_address(), Path(folder) / f"{number}.log") for number in range(2)]
        try:
            for other in others:
                other.start()
            yield _Site(stack, [stack.origin, *(f"http://{other.listen}" for other in others)], metrics)
        finally:
            for other in others:
                if other.process is not None:
                    other.kill()


async def _measure(site: _Site, user: str, seconds: float, split: Sequence[int] | None) -> _Row:
    """Load the facades over the rate by so many clients at each, or evenly and within the rate without a split."""
    token = await asyncio.to_thread(site.add_user, user)
    statuses: Counter[int] = Counter()
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Client(f"{facade}/{_REPOSITORY}", user, token)) for facade in site.facades
        ]
        for client in clients:
            (await client.post("locks/verify")).raise_for_status()
        calls, began = await asyncio.to_thread(site.calls), time.monotonic()

        async def insist(client: Client) -> None:
            while time.monotonic() < began + seconds:
                status = (await client.locks()).status_code
                statuses[status] += 1
                if status != httpx.codes.OK:
                    await asyncio.sleep(_PAUSE_SECONDS)

        async def ask(number: int) -> None:
            await asyncio.sleep(began + number * 60 / _PER_MINUTE / _WITHIN - time.monotonic())
            statuses[(await clients[number % len(clients)].locks()).status_code] += 1

        if split is None:
            loads = [ask(number) for number in range(int(seconds * _PER_MINUTE / 60 * _WITHIN))]
        else:
            loads = [insist(client) for client, count in zip(clients, split, strict=True) for _ in range(count)]
        await asyncio.gather(*loads)
        took = time.monotonic() - began
    return _Row(statuses, await asyncio.to_thread(site.calls) - calls, took)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds = parser.parse_args().seconds
    numbers = itertools.count()
    print("| load | requests | passed | of the rate | calls of TakeRate |\n|---|---:|---:|---:|---:|")
    with _site() as site:
        for title, split in [*_SPLITS.items(), (f"{_WITHIN:.0%} of the rate, in turn", None)]:
            row = asyncio.run(_measure(site, f"limited-{next(numbers)}", seconds, split))
            passed = row.statuses[httpx.codes.OK]
            assert set(row.statuses) <= {httpx.codes.OK, httpx.codes.TOO_MANY_REQUESTS}, row.statuses
            part = passed / (_PER_MINUTE * row.seconds / 60)
            print(f"| {title} | {row.statuses.total():,} | {passed:,} | {part:.1%} | {row.calls:,} |", flush=True)


if __name__ == "__main__":
    main()
