"""SIGKILL at 25 points: what was acknowledged stands, and nothing is left behind."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, suppress

import httpx
import psutil
import pytest

from tests.e2e.activity import Activity, Ledger, Moment
from tests.e2e.bytes_at_rest import incoming, stored
from tests.support.http import Client, content, oid_of
from tests.support.stack import Stack
from tests.support.waiting import STEP_SECONDS, until

EVERYTHING = "everything"
VICTIMS = {
    "facade": set(Moment),
    "storage": {Moment.EARLY, Moment.MIDDLE, Moment.LATE, Moment.UPLOADED},
    "locks": {Moment.LATE, Moment.UPLOADED, Moment.LOCKED, Moment.UNLOCKED},
    "postgres": {Moment.EARLY, Moment.LATE, Moment.UPLOADED, Moment.LOCKED, Moment.UNLOCKED},
    EVERYTHING: set(Moment),
}
# Victims take turns: a service that died six times within a minute would be given up.
POINTS = [(victim, moment) for moment in Moment for victim, moments in VICTIMS.items() if moment in moments]
# One death of a process and one of all; the others are drills.
SHORT = [("storage", Moment.LATE), (EVERYTHING, Moment.LOCKED)]
PARAMETERS = [
    pytest.param(*point, id="-".join(point), marks=[] if point in SHORT else [pytest.mark.drill]) for point in POINTS
]


@pytest.fixture(scope="module")
def crashing(running_site: Callable[[], AbstractContextManager[Stack]]) -> Iterator[Stack]:
    """One stack that lives through all the points."""
    with running_site() as stack:
        yield stack


@pytest.fixture(scope="module")
def total() -> Ledger:
    """Return the ledger of everything acknowledged at all the points so far."""
    return Ledger()


@pytest.fixture
async def client(crashing: Stack) -> AsyncIterator[Client]:
    """Alice over HTTP."""
    token = crashing.tokens["alice"]
    async with Client(crashing.base_url, "alice", token, verify=crashing.trust) as client:
        yield client


def _processes(stack: Stack, victim: str, turn: int) -> list[psutil.Process]:
    """Return what is killed: a service as a whole, and where it runs on several hosts, by turns on one of them."""
    if victim == EVERYTHING:
        return stack.processes()
    of_hosts = defaultdict(list)
    for process in stack.services(victim):
        of_hosts[process.ppid()].append(process)
    return list(of_hosts.values())[turn % len(of_hosts)]


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        # A connection's process of Postgres may have ended since.
        with suppress(psutil.NoSuchProcess):
            process.kill()


async def _bring_back(stack: Stack, victim: str, killed: list[psutil.Process], copies: int) -> None:
    """Start everything again, or wait until `towpath up` has started the one that was killed."""
    if victim == EVERYTHING:
        await asyncio.to_thread(stack.kill)
        await asyncio.to_thread(stack.start)
        return
    await until(lambda: len(set(stack.services(victim)) - set(killed)) == copies, f"{victim} is started again")


async def _answers(client: Client, name: str) -> None:
    """Wait until all the services answer: an upload, a lock and an unlock succeed."""
    data = content(f"{name}/after", 1000)

    async def are_back() -> bool:
        try:
            held = await client.action("upload", oid_of(data), len(data))
            locks = await client.locks(path=f"{name}/after.dat")
            locks.raise_for_status()
        except httpx.HTTPError:
            return False
        assert held is not None
        return True

    await until(are_back, "the services come back")
    assert (await client.upload(data)).status_code == 200
    made = await client.lock(f"{name}/after.dat")
    assert made.status_code == 201
    assert (await client.unlock(made.json()["lock"]["id"])).status_code == 200


async def _assert_kept(client: Client, ledger: Ledger) -> None:
    """Check that every acknowledged object, lock and unlock is as it was acknowledged."""
    held = list(ledger.objects.items())
    for start in range(0, len(held), 500):
        objects = held[start : start + 500]
        batch = (await client.batch("download", *objects)).json()
        for entry in batch["objects"]:
            action = entry["actions"]["download"]
            answer = await client.http.get(action["href"], headers=action["header"])
            assert answer.status_code == 200
            assert oid_of(answer.content) == entry["oid"]
    standing = {lock["id"]: lock["path"] for lock in await client.all_locks(limit=1000)}
    assert {lock_id: standing.get(lock_id) for lock_id in ledger.locks} == ledger.locks
    assert not ledger.unlocked & standing.keys()
    assert len(set(standing.values())) == len(standing)


def _keeps_unverified(stack: Stack) -> bool:
    """Tell whether what a client has brought to the store, and could not verify, stays for as long as its address."""
    return stack.bucket is not None and stack.bucket.transfer == "direct"


def _indexed(stack: Stack) -> set[str]:
    return {entry["oid"] for entry in stack.towpath("object", "list", "demo/assets")}


@pytest.mark.parametrize(("victim", "moment"), PARAMETERS)
async def test_crash(victim: str, moment: Moment, crashing: Stack, client: Client, total: Ledger) -> None:
    """The victim dies at the moment, in the midst of uploads, locks and unlocks (trap-2, trap-3)."""
    name = f"{victim}-{moment.name}"
    copies = len(crashing.services(victim))
    processes = _processes(crashing, victim, POINTS.index((victim, moment)))
    activity = Activity(client, name, moment)
    running = asyncio.create_task(activity.run())
    try:
        await asyncio.wait_for(activity.reached.wait(), STEP_SECONDS)
        _kill(processes)
        activity.struck.set()
        await _bring_back(crashing, victim, processes, copies)
        await _answers(client, name)
    finally:
        activity.struck.set()
        activity.stop.set()
        await asyncio.wait_for(running, STEP_SECONDS)
    ledger = activity.ledger
    await _assert_kept(client, ledger)
    total.objects |= ledger.objects
    total.locks |= ledger.locks
    total.unlocked |= ledger.unlocked
    await until(lambda: not incoming(crashing), "nothing is left among what comes in")
    if not _keeps_unverified(crashing):
        await until(lambda: stored(crashing) <= _indexed(crashing), "no file is stored that no repository holds")


async def test_nothing_of_all_that_is_lost(crashing: Stack, client: Client, total: Ledger) -> None:
    """After the last point, all that was acknowledged at any of them is as it was, and no file is missing."""
    await _assert_kept(client, total)
    if _keeps_unverified(crashing):
        assert stored(crashing) >= _indexed(crashing)
    else:
        assert stored(crashing) == _indexed(crashing)
