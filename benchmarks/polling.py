"""CPU for clients that ask for the locks once a second, each with the entity tag of the list that it knows.

`python -m benchmarks.polling` runs a `towpath up`, lets 300 such clients ask while nothing changes, and prints the CPU
of each service as a part of one core.
"""

import argparse
import asyncio
import time

from benchmarks.costs import PROCESSES, services_cpu_seconds
from tests.support.http import MEDIA_TYPE, Client, basic
from tests.support.stack import Stack, running_stack

_LOCKS = 100
_WARM_SECONDS = 3
_UNCHANGED = b"HTTP/1.1 304 "


async def _measure(stack: Stack, clients: int, seconds: int) -> dict[str, float]:
    """Return the CPU seconds of each service in each second."""
    async with Client(stack.base_url, "alice", stack.tokens["alice"]) as client:
        paths = [f"Content/{number}.uasset" for number in range(_LOCKS)]
        (await client.post("locks/batch/lock", paths=paths)).raise_for_status()
        tag = (await client.locks()).headers["ETag"]
    request = (
        f"GET /demo/assets/locks HTTP/1.1\r\nHost: towpath\r\nAccept: {MEDIA_TYPE}\r\nIf-None-Match: {tag}\r\n"
        f"Authorization: {basic('alice', stack.tokens['alice'])}\r\n\r\n"
    ).encode()
    first = time.monotonic() + 1
    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(_poll(stack, request, first + number / clients, _WARM_SECONDS + seconds))
        await asyncio.sleep(first + _WARM_SECONDS - time.monotonic())
        before, began = services_cpu_seconds(stack), time.monotonic()
        await asyncio.sleep(seconds - 1)
        after, took = services_cpu_seconds(stack), time.monotonic() - began
    return {name: (after[name] - before[name]) / took for name in PROCESSES}


async def _poll(stack: Stack, request: bytes, first: float, count: int) -> None:
    """Ask once a second from a moment on. Raises AssertionError for an answer with a page."""
    host, _, port = stack.origin.partition("://")[2].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for number in range(count):
        await asyncio.sleep(first + number - time.monotonic())
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(_UNCHANGED), head
    writer.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=300)
    parser.add_argument("--seconds", type=int, default=20)
    arguments = parser.parse_args()
    with running_stack() as stack:
        idle = asyncio.run(_measure(stack, 0, arguments.seconds))
        busy = asyncio.run(_measure(stack, arguments.clients, arguments.seconds))
    print(f"| | {' | '.join(PROCESSES)} | all |\n|---|{'---|' * (len(PROCESSES) + 1)}")
    for title, spent in (("no client", idle), (f"{arguments.clients} clients", busy)):
        figures = [*(spent[name] for name in PROCESSES), sum(spent.values())]
        print(f"| {title} | {' | '.join(f'{figure:.3f}' for figure in figures)} |")


if __name__ == "__main__":
    main()
