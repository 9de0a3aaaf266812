"""Short outages of an inner service, waited out and not seen by a client."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import psutil
import pytest

from tests.e2e.load import Load, Request
from tests.support.http import Client
from tests.support.stack import Stack, running_stack
from tests.support.waiting import STEP_SECONDS, until

KINDS = {
    "upload batch",
    "download batch",
    "list locks",
    "verify locks",
    "create lock",
    "delete lock",
    "upload",
    "download",
}
FREEZE_SECONDS = 5

# tests/protocol/test_outages.py kills each service once, and test_real_client_outages.py one in the midst of a push.
pytestmark = pytest.mark.drill


@pytest.fixture(scope="module")
def failing() -> Iterator[Stack]:
    """One stack for all the outages."""
    with running_stack("--demo") as stack:
        yield stack


@pytest.fixture
async def client(failing: Stack) -> AsyncIterator[Client]:
    """Alice over HTTP."""
    async with Client(failing.base_url, "alice", failing.tokens["alice"]) as client:
        yield client


async def _begin(load: Load) -> asyncio.Task[None]:
    """Start the load and wait until all of it is under way."""
    await load.prepare()
    running = asyncio.create_task(load.run())
    await asyncio.wait_for(load.half_sent.wait(), STEP_SECONDS)
    await asyncio.wait_for(load.half_read.wait(), STEP_SECONDS)
    await until(lambda: load.succeeded_since(0) >= KINDS, "every kind of request has succeeded once")
    return running


async def _end(load: Load, running: asyncio.Task[None], over: float) -> None:
    """Let the paused transfers go on, wait until every kind of request succeeds again, and stop the load."""
    load.resume.set()
    try:
        await until(lambda: load.succeeded_since(over) >= KINDS, "every kind of request succeeds again")
    finally:
        load.stop.set()
        await asyncio.wait_for(running, STEP_SECONDS)


def _problems(load: Load) -> list[Request]:
    return [request for request in load.requests if request.problem is not None]


async def test_last_uses_are_listed_though_postgres_was_killed(failing: Stack) -> None:
    """The list waits for it, and a use is shown in the end, though nobody shows the token again."""
    secret = failing.towpath("token", "add", "alice", "outage")["secret"]
    await asyncio.to_thread(psutil.wait_procs, failing.kill_service("postgres"), STEP_SECONDS)
    async with Client(failing.base_url, "alice", secret) as client:
        assert (await client.locks()).status_code == 200
    await asyncio.to_thread(psutil.wait_procs, failing.kill_service("postgres"), STEP_SECONDS)

    def is_used() -> bool:
        tokens = {token["name"]: token for token in failing.towpath("token", "list", "alice")}
        assert {"demo", "outage"} <= tokens.keys()
        return "last_used_at" in tokens["outage"]

    await until(is_used, "the last use is listed")


@pytest.mark.parametrize("victim", ["storage", "facade", "locks", "postgres"])
async def test_killed_service_is_not_missed(victim: str, failing: Stack, client: Client) -> None:
    """SIGKILL: only what the dead process itself was receiving or answering for a client may fail."""
    load = Load(client, f"killed {victim}")
    running = await _begin(load)
    await asyncio.to_thread(psutil.wait_procs, failing.kill_service(victim), STEP_SECONDS)
    died = time.monotonic()
    await _end(load, running, died)
    excused: list[Request] = []
    if victim == "facade":
        excused = [request for request in load.requests if request.began < died]
    if victim == "storage":
        excused = [request for request in load.requests if request.began < died and request.kind.endswith("upload")]
    assert [request for request in _problems(load) if request not in excused] == []


@pytest.mark.parametrize("victim", ["storage", "locks", "postgres"])
async def test_frozen_service_is_waited_for(victim: str, failing: Stack, client: Client) -> None:
    """A service that stands still for five seconds delays its clients and fails none of them."""
    load = Load(client, f"frozen {victim}")
    running = await _begin(load)
    process = failing.service(victim)
    processes = [process, *process.children(recursive=True)]
    for frozen in processes:
        frozen.suspend()
    try:
        await asyncio.sleep(FREEZE_SECONDS)
    finally:
        for frozen in processes:
            frozen.resume()
    await _end(load, running, time.monotonic())
    assert _problems(load) == []
