"""Service for an honest client of `towpath up` under attack: silence, slow and large bodies, long heads, wrong tokens.

`python -m benchmarks.hostile` runs each attack alone, and then all at once, against one `towpath up --demo`. Attackers
are separate processes. The honest client sends batches of objects that no client has requested before. The command
exits with 1 if a batch fails, if the 95th percentile of the batch times is 1 s or more or the worst 2 s or more, if all
processes of Towpath together have 600 MiB or more (proportional set size), or if a process of it has ended. First it
measures the processor time of one request with each long head, which is at most three times that of a plain one, and
3 ms.
`--connections` is the number of connections of each attack, where it is not to be its own.
"""

import argparse
import asyncio
import multiprocessing
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from tests.support.http import MEDIA_TYPE
from tests.support.stack import Stack

SLOWEST_SECONDS = 1.0
WORST_SECONDS = 2.0
MAX_MIB = 600
MAX_HEAD_MS = 3.0
MAX_HEAD_RATIO = 3.0
_CLIENTS = 4
_RETRY_SECONDS = 0.1
_OBJECTS = 100
_BATCH_BYTES = 10 * 1024**2
_RELEASED = 1_000
_HEAD_REQUESTS = 300


@dataclass(frozen=True)
class Target:
    """Knowledge of the attackers: Towpath's host and port, the token of a user, and the addresses they connect from."""

    host: str
    port: int
    token: str
    addresses: Sequence[str]

    async def connect(self, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection from one of the addresses."""
        local = (self.addresses[number % len(self.addresses)], 0)
        async with asyncio.timeout(30):
            return await asyncio.open_connection(self.host, self.port, local_addr=local)

    def head(self, method: str, path: str, token: str, length: int) -> bytes:
        """Return the head of a request."""
        credentials = f"Authorization: Bearer {token}\r\n" if token else ""
        return (
            f"{method} /demo/assets/{path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nAccept: {MEDIA_TYPE}\r\n"
            f"Content-Type: {MEDIA_TYPE}\r\n{credentials}Content-Length: {length}\r\n\r\n"
        ).encode()


async def _silent(target: Target, number: int) -> None:
    """Send one byte, and wait until the other side has enough."""
    reader, writer = await target.connect(number)
    try:
        writer.write(b"P")
        await reader.read()
    finally:
        writer.close()


async def _slow(target: Target, number: int) -> None:
    """Announce a body, as a user, and send a byte of it every ten seconds."""
    reader, writer = await target.connect(number)
    try:
        writer.write(target.head("POST", "objects/batch", target.token, 150_000) + b"{")
        reading = asyncio.create_task(reader.read())
        while not reading.done():
            await asyncio.wait([reading], timeout=10)
            writer.write(b" ")
        await reading
    finally:
        writer.close()


async def _large(target: Target, number: int) -> None:
    """Send a batch of so many objects that it has 10 MiB; every other time as a user."""
    body = b'{"operation":"download","objects":[' + b"{}," * (_BATCH_BYTES // 3) + b"{}]}"
    token = target.token if number % 2 else ""
    reader, writer = await target.connect(number)
    try:
        writer.write(target.head("POST", "objects/batch", token, len(body)) + body)
        with suppress(ConnectionError):
            await writer.drain()
        await reader.read()
    finally:
        writer.close()


async def _guessing(target: Target, number: int) -> None:
    """Ask for locks with one wrong token after another, as fast as the answers come."""
    reader, writer = await target.connect(number)
    try:
        while True:
            writer.write(target.head("GET", "locks", secrets.token_urlsafe(24), 0))
            await _answer(reader)
    finally:
        writer.close()


async def _pipelined(target: Target, number: int) -> None:
    """Send 250 KB of the smallest requests, and read no answer."""
    _, writer = await target.connect(number)
    try:
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 9_000)
        await asyncio.sleep(10)
    finally:
        writer.close()


def _filled(before: str, part: str, after: str = "") -> Callable[[int], bytes]:
    """Return the function that fills a header, or a target, to a length with one part again and again."""
    return lambda length: (before + part * ((length - len(before) - len(after)) // len(part)) + after).encode()


# The long part of each head: a line of its own, or the query.
_HEADS: dict[str, Callable[[int], bytes]] = {
    "accept": _filled("Accept: ", "a/b,", "a/b\r\n"),
    "query": _filled("?", "a=b&"),
    "cookie": _filled("Cookie: ", "a=b; ", "a=b\r\n"),
    "authorization": _filled("Authorization: Basic ", "YTpi", "\r\n"),
    "tags": _filled("If-None-Match: ", '"a",', '"a"\r\n'),
    "headers": _filled("", "a: b\r\n"),
    "fewer headers": _filled("", f"a: {'b' * 155}\r\n"),
}
# A head is read up to 16 KB.
_READ_BYTES = 15_000
_LONG_BYTES = 62_000


def _request(kind: str, length: int) -> bytes:
    """Return a request of a public page whose head has one part of this length; without a kind, a plain one."""
    filled = _HEADS[kind](length) if kind else b""
    query, line = (filled, b"") if kind == "query" else (b"", filled)
    return b"GET /demo/assets/locks%b HTTP/1.1\r\nHost: a\r\n%b\r\n" % (query, line)


def _long_head(kind: str) -> "Attack":
    """Return an attack by requests with one long header, one after the other."""
    request = _request(kind, _LONG_BYTES)

    async def attack(target: Target, number: int) -> None:
        reader, writer = await target.connect(number)
        try:
            while True:
                writer.write(request)
                await _answer(reader)
        finally:
            writer.close()

    return attack


def _history(target: Target, number: int) -> "Awaitable[None]":
    return _asking("locks/history?limit=1000", target, number)


def _watch_locks(target: Target, number: int) -> "Awaitable[None]":
    return _asking("locks/events", target, number)


async def _asking(path: str, target: Target, number: int) -> None:
    """Ask as a stranger, once a second, and read the answers."""
    reader, writer = await target.connect(number)
    try:
        while True:
            writer.write(target.head("GET", path, "", 0).replace(f"Accept: {MEDIA_TYPE}".encode(), b"Accept: */*"))
            await _answer(reader)
            await asyncio.sleep(1)
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> None:
    """Read an answer, to its end where it has one."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length")), None)
    if length is None:
        await reader.read()
    else:
        await reader.readexactly(length)


Attack = Callable[[Target, int], Awaitable[None]]
# How each is done, and by how many connections at once.
ATTACKS: dict[str, tuple[Attack, int]] = {
    "silent": (_silent, 2_200),
    "slow": (_slow, 1_150),
    "large": (_large, 4),
    "guessing": (_guessing, 100),
    "pipelined": (_pipelined, 100),
    **{kind: (_long_head(kind), 100) for kind in _HEADS},
    # Of strangers, on a public repository.
    "history": (_history, 30),
    "watches": (_watch_locks, 2_000),
}


async def _repeat(attack: Attack, target: Target, number: int) -> None:
    while True:
        with suppress(OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            await attack(target, number)
        # Whoever is cut off comes again.
        await asyncio.sleep(0.2)


def _attack(name: str, target: Target, connections: int | None) -> None:
    """Attack until the process is ended."""
    attack, count = ATTACKS[name][0], connections or ATTACKS[name][1]

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(_repeat(attack, target, number))

    asyncio.run(run())


@contextmanager
def _attacked(names: Sequence[str], target: Target, connections: int | None) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_attack, args=(name, target, connections), daemon=True) for name in names]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


@dataclass
class Seen:
    """Measurements of the honest client and of the operator."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    mib: float = 0.0

    @property
    def slowest(self) -> float:
        """The 95th percentile of the times, in seconds."""
        return statistics.quantiles(self.seconds, n=20)[-1] if len(self.seconds) > 1 else float("inf")

    @property
    def is_good(self) -> bool:
        """True if every measurement is within its bound."""
        is_fast = self.slowest < SLOWEST_SECONDS and max(self.seconds) < WORST_SECONDS
        return not self.failures and is_fast and self.mib < MAX_MIB


async def _ask(stack: Stack, seen: Seen, until: float) -> None:
    headers = {"Authorization": f"Bearer {stack.tokens['alice']}", "Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE}
    while time.monotonic() < until:
        # A new connection for each ten batches: those that are open already are not all that must work.
        async with httpx.AsyncClient(trust_env=False, timeout=60, headers=headers) as http:
            for _ in range(10):
                objects = [{"oid": secrets.token_hex(32), "size": 1} for _ in range(_OBJECTS)]
                body = {"operation": "upload", "objects": objects}
                began = time.monotonic()
                try:
                    response = await http.post(f"{stack.base_url}/objects/batch", json=body)
                    if response.status_code != 200:
                        seen.failures.append(f"{response.status_code} {response.text[:200]}")
                except httpx.HTTPError as error:
                    seen.failures.append(repr(error))
                seen.seconds.append(time.monotonic() - began)
                await asyncio.sleep(_RETRY_SECONDS)


async def _weigh(stack: Stack, seen: Seen) -> None:
    assert stack.process is not None
    root = psutil.Process(stack.process.pid)
    while True:
        total = 0
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.Error):
                total += process.memory_full_info().pss
        seen.mib = max(seen.mib, total / 1024**2)
        await asyncio.sleep(1)


async def _watch(stack: Stack, seconds: float) -> Seen:
    seen, until = Seen(), time.monotonic() + seconds
    weighing = asyncio.create_task(_weigh(stack, seen))
    await asyncio.gather(*(_ask(stack, seen, until) for _ in range(_CLIENTS)))
    weighing.cancel()
    return seen


async def _processor_ms(stack: Stack, target: Target, request: bytes) -> float:
    """Return the processor time of the facades for one connection with this request, in milliseconds."""
    facades = stack.services("facade")
    before = sum(sum(facade.cpu_times()[:2]) for facade in facades)
    for _ in range(_HEAD_REQUESTS):
        reader, writer = await target.connect(0)
        writer.write(request)
        # Towpath answers, and ends the connection, before it has read all of a head that is too long.
        with suppress(ConnectionError, EOFError):
            await _answer(reader)
        writer.close()
    return (sum(sum(facade.cpu_times()[:2]) for facade in facades) - before) / _HEAD_REQUESTS * 1000


def _heads_are_cheap(stack: Stack, target: Target) -> bool:
    """Print what each long head costs, as long as it is read and longer; return whether each is within its bound."""
    print(f"{'head':<28}{'bytes':>8}{'ms':>8}{'ratio':>8}", flush=True)
    plain = asyncio.run(_processor_ms(stack, target, _request("", 0)))
    good = True
    for kind, length in [("", 0), *((kind, length) for kind in _HEADS for length in (_READ_BYTES, _LONG_BYTES))]:
        milliseconds = asyncio.run(_processor_ms(stack, target, _request(kind, length)))
        good &= milliseconds < min(MAX_HEAD_MS, MAX_HEAD_RATIO * plain)
        print(f"{kind or 'plain':<28}{length:>8}{milliseconds:>8.2f}{milliseconds / plain:>8.1f}", flush=True)
    return good


def _processes(stack: Stack) -> list[int]:
    return [process.pid for name in ("storage", "locks", "facade") for process in stack.services(name)]


def _provide_history(stack: Stack) -> None:
    """Make the demo public, with a thousand locks that were released."""
    stack.towpath("repo", "update", "demo/assets", "--public")
    paths = [f"levels/{number:04}/{'long/' * 20}map.umap" for number in range(_RELEASED)]
    for command in ("add", "remove"):
        stack.towpath("lock", command, "demo/assets", *paths)


def _told(name: str, seen: Seen) -> str:
    median = statistics.median(seen.seconds)
    return (
        f"{name:<28}{len(seen.seconds):>8}{len(seen.failures):>9}{median * 1000:>9.0f}{seen.slowest * 1000:>9.0f}"
        f"{max(seen.seconds) * 1000:>9.0f}{seen.mib:>9.0f}   {'ok' if seen.is_good else 'TOO MUCH'}"
    )


def main() -> None:
    """Run the attacks and print what was seen, one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180, help="how long each attack goes on")
    parser.add_argument("--listen", default="127.0.0.1:0", help="where Towpath listens")
    parser.add_argument("--address", action="append", help="an address that attackers come from; may be repeated")
    parser.add_argument("--connections", type=int, help="the connections of each attack")
    parser.add_argument("--attack", action="append", choices=ATTACKS, help="only these, and all of them at once")
    chosen = parser.parse_args()
    runs = [(), *((name,) for name in chosen.attack or ATTACKS), tuple(chosen.attack or ATTACKS)]
    with tempfile.TemporaryDirectory(prefix="towpath-hostile-") as folder, ExitStack() as running:
        stack = Stack(Path(folder) / "data", listen=chosen.listen)
        stack.start()
        running.callback(stack.stop)
        host, _, port = stack.origin.partition("://")[2].rpartition(":")
        _provide_history(stack)
        target = Target(host, int(port), stack.tokens["bob"], chosen.address or [host])
        good = _heads_are_cheap(stack, target)
        print(f"{'attack':<28}{'batches':>8}{'failed':>9}{'p50 ms':>9}{'p95 ms':>9}{'max ms':>9}{'MiB':>9}", flush=True)
        for names in runs:
            before = _processes(stack)
            with _attacked(names, target, chosen.connections):
                seen = asyncio.run(_watch(stack, chosen.seconds if names else min(20, chosen.seconds)))
            if _processes(stack) != before:
                seen.failures.append("a process of Towpath has ended")
            print(_told(" + ".join(names) or "none", seen), flush=True)
            for failure in seen.failures[:3]:
                print(f"    {failure}", flush=True)
            good &= seen.is_good
    sys.exit(not good)


if __name__ == "__main__":
    main()
