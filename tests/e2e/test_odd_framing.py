"""500 requests of odd framing, direct and behind each proxy: no answer reaches another request than its own."""

import asyncio
import itertools
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.e2e.odd_requests import TYPE, Drawing, Odd
from tests.support import streams
from tests.support.proxies import PROXIES, Running, running_apache, running_haproxy
from tests.support.stack import Stack
from tests.support.waiting import STEP_SECONDS

COUNT = 500
SEED = 23
_MAX_CONCURRENCY = 8
# A connection that says no more after its answers; the facade ends one sooner where its end is in doubt.
_QUIET_SECONDS = 0.5
_OID = re.compile(rb"(0dd[0-9a-f]{5}|beef[0-9a-f]{4})[0-9a-f]{56}")
# What one client has sent meets what another sends where they share a connection.
SHARING: dict[str, Running] = {
    **PROXIES,
    "apache": partial(running_apache, reusing=True),
    "haproxy": partial(running_haproxy, reusing=True),
}

# tests/service/facade/test_framing.py has the heads and bodies of doubtful ends, one by one.
pytestmark = pytest.mark.drill


@dataclass(frozen=True)
class Way:
    """A destination of requests: an origin, and the authority that its clients trust."""

    origin: str
    trust: ssl.SSLContext | bool

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connect."""
        host, _, port = self.origin.partition("://")[2].rpartition(":")
        context = self.trust if isinstance(self.trust, ssl.SSLContext) else None
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        try:
            yield reader, writer
        finally:
            await streams.end([writer])


@pytest.fixture(scope="module", params=["direct", *SHARING])
def way(request: pytest.FixtureRequest, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    """Each way in turn."""
    if request.param == "direct":
        yield Way(stack.origin, trust=True)
        return
    folder: Path = tmp_path_factory.mktemp(request.param)
    with SHARING[request.param](folder, [stack.listen, stack.listen]) as proxy:
        yield Way(proxy.origin, ssl.create_default_context(cafile=str(proxy.files.authority)))


async def _answers(way: Way, odd: Odd) -> bytes:
    """Send it, and return all that comes back."""
    received = b""
    async with way.connection() as (reader, writer):
        with suppress(ConnectionError, TimeoutError):
            writer.write(odd.data)
            async with asyncio.timeout(STEP_SECONDS):
                await writer.drain()
            while True:
                async with asyncio.timeout(_QUIET_SECONDS):
                    data = await reader.read(65_536)
                if not data:
                    break
                received += data
    return received


async def _ask_honestly(way: Way, stack: Stack, number: int, done: asyncio.Event) -> int:
    """Ask for one object after another on connections that are kept; return how many were answered.

    Apache says 503 for a second after the facade has closed a connection in the midst of what an attacker sent on it.
    """
    answered = 0
    headers = {"Authorization": f"Bearer {stack.tokens['alice']}", "Accept": TYPE, "Content-Type": TYPE}
    async with httpx.AsyncClient(
        base_url=f"{way.origin}/demo/assets/", verify=way.trust, headers=headers, timeout=STEP_SECONDS, trust_env=False
    ) as http:
        for count in itertools.count():
            if done.is_set():
                return answered
            oid = f"beef{number:x}{count % 4096:03x}".ljust(64, "0")
            body = {"operation": "upload", "objects": [{"oid": oid, "size": 1}]}
            answer = await http.post("objects/batch", json=body)
            if answer.status_code == 503 and "DOCTYPE" in answer.text:
                assert not _OID.search(answer.content)
                continue
            answered += 1
            assert answer.status_code == 200, answer.text
            assert [each["oid"] for each in answer.json()["objects"]] == [oid]
    raise AssertionError


async def test_no_answer_belongs_to_another_request(way: Way, stack: Stack) -> None:
    """While attackers send them, honest clients on the same connections to the facade get their own answers only."""
    host = way.origin.partition("://")[2]
    drawing = Drawing(SEED, path="/demo/assets", host=host, authorization=f"Bearer {stack.tokens['bob']}")
    odd = [drawing.request(f"0dd{number:05x}") for number in range(COUNT)]
    done, places = asyncio.Event(), asyncio.Semaphore(_MAX_CONCURRENCY)
    honest = [asyncio.create_task(_ask_honestly(way, stack, number, done)) for number in range(3)]

    async def attack(one: Odd) -> bool:
        async with places:
            told = {found.decode() for found in _OID.findall(await _answers(way, one))}
        assert told <= {one.mark}, one.data
        return bool(told)

    try:
        understood = sum(await asyncio.gather(*map(attack, odd)))
    finally:
        done.set()
        served = await asyncio.gather(*honest)
    assert all(served)
    # Most are refused; were all of them, the test would see nothing.
    assert understood > COUNT // 20
