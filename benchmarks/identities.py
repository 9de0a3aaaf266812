"""Batches of users with a token of a forge or of an issuer, beside those of a user with a token of Towpath.

`python -m benchmarks.identities` runs a `towpath up` and stubs of both, lets four clients of each kind ask in turns,
and prints the time and the CPU of a request as multiples of those with a token of Towpath: medians of all rounds. A
role of the forge counts for a minute, as by default, so that the forge is asked again within the run.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from benchmarks.costs import services_cpu_seconds
from benchmarks.work import Work
from tests.support.forges import StubForge, running_forge
from tests.support.http import Client
from tests.support.issuer import AUDIENCE, Issuer, running_issuer
from tests.support.stack import Stack, running_stack

_REPOSITORY = "demo/assets"
_TOWPATH = "Towpath"
_CLIENTS = 4
_REQUESTS: dict[str, Callable[[Work], Awaitable[None]]] = {
    "batch of 1": Work.batch_1,
    "batch of 100": Work.batch_100,
    "upload batch of 1": Work.batch_upload,
}


@dataclass
class _Spent:
    """Seconds of each round for one request: by the clock, and of the CPU of all services."""

    clock: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def _credentials(stack: Stack, forge: StubForge, issuer: Issuer) -> dict[str, tuple[str, str]]:
    """Return a user who may write and the credential, by where the credential comes from."""
    forge.add("ann", "token-of-ann", "write")
    stack.towpath("forge", "add", "forge", "--kind", forge.kind, "--api", forge.api_url, "--repositories", "acme/*")
    stack.towpath("repo", "update", _REPOSITORY, "--forge", "forge", "--forge-repository", "acme/film")
    claims = ("--user-claim", "preferred_username", "--groups-claim", "groups")
    stack.towpath("issuer", "add", "issuer", "--issuer", issuer.url, "--audience", AUDIENCE, *claims)
    stack.towpath("group", "add", "artists")
    stack.towpath("grant", "artists", _REPOSITORY, "--role", "write", "--group")
    stack.towpath("issuer", "map", "issuer", "Artists", "artists")
    token = issuer.token(preferred_username="ben", groups=["Artists"], exp=int(time.time()) + 3600)
    return {
        _TOWPATH: ("alice", stack.tokens["alice"]),
        "a forge": ("ann", "token-of-ann"),
        "an issuer": ("ben", token),
    }


async def _measure(
    stack: Stack, credentials: dict[str, tuple[str, str]], rounds: int, count: int
) -> dict[str, dict[str, _Spent]]:
    """Return what a request took, by its kind and where the credential comes from."""
    spent = {request: {source: _Spent() for source in credentials} for request in _REQUESTS}
    async with AsyncExitStack() as clients:
        works: dict[str, list[Work]] = {}
        for source, (user, token) in credentials.items():
            opened = [await clients.enter_async_context(Client(stack.base_url, user, token)) for _ in range(_CLIENTS)]
            works[source] = [Work(client, stack.origin) for client in opened]
        await works[_TOWPATH][0].prepare()
        order = list(credentials)
        for number in range(-1, rounds):
            # Each goes first as often as the others.
            order.append(order.pop(0))
            for name, request in _REQUESTS.items():
                for source in order:
                    clock, cpu = await _spend(stack, works[source], request, count)
                    if number >= 0:
                        spent[name][source].clock.append(clock)
                        spent[name][source].cpu.append(cpu)
    return spent


async def _spend(
    stack: Stack, works: list[Work], request: Callable[[Work], Awaitable[None]], count: int
) -> tuple[float, float]:
    """Let each client ask so often, one after the other; return the seconds of a request by the clock and of CPU."""

    async def ask(work: Work) -> None:
        for _ in range(count):
            await request(work)

    before, began = sum(services_cpu_seconds(stack).values()), time.monotonic()
    await asyncio.gather(*map(ask, works))
    took, after = time.monotonic() - began, sum(services_cpu_seconds(stack).values())
    return took / count / len(works), (after - before) / count / len(works)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--count", type=int, default=100, help="requests of each client in a round")
    arguments = parser.parse_args()
    with running_stack() as stack, running_forge("gitea") as forge, running_issuer() as issuer:
        credentials = _credentials(stack, forge, issuer)
        spent = asyncio.run(_measure(stack, credentials, arguments.rounds, arguments.count))
        lookups = forge.lookups
    print("| request | token of | ms | time | CPU |\n|---|---|---|---|---|")
    for request, by_source in spent.items():
        own = by_source[_TOWPATH]
        for source, each in by_source.items():
            time_ratio, cpu_ratio = (
                statistics.median(mine / other for mine, other in zip(*pair, strict=True))
                for pair in ((each.clock, own.clock), (each.cpu, own.cpu))
            )
            milliseconds = statistics.median(each.clock) * 1000
            print(f"| {request} | {source} | {milliseconds:.2f} | {time_ratio:.2f}× | {cpu_ratio:.2f}× |")
    print(f"\nthe forge was asked about the repository {lookups} times")


if __name__ == "__main__":
    main()
