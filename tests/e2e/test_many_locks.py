"""Listing of 10,000 locks page by page, while other locks come and go (trap-16)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import pytest
from towpath.access.v1.access_service_pb2 import PERMISSION_WRITE, AuthenticateRequest, CheckAccessRequest
from towpath.access.v1.access_service_pb2_grpc import AccessServiceStub
from towpath.locks.v1.lock_service_pb2 import CreateLockRequest
from towpath.locks.v1.lock_service_pb2_grpc import LockServiceStub

from tests.support.http import Client
from tests.support.stack import Stack, running_stack

STANDING = 10_000
DOOMED = 500
_MAX_CONCURRENCY = 16


@pytest.fixture(scope="module")
def crowded() -> Iterator[Stack]:
    """A stack of its own, for its many locks."""
    with running_stack("--demo") as stack:
        yield stack


@pytest.fixture(scope="module")
async def alice(crowded: Stack) -> AsyncIterator[Client]:
    """Alice over HTTP."""
    async with Client(crowded.base_url, "alice", crowded.tokens["alice"]) as client:
        yield client


async def _make(stack: Stack, paths: list[str]) -> dict[str, str]:
    """Lock the paths for alice, in about their order, and return their ids: straight from the service, for speed."""
    ids = {}
    waiting = iter(paths)
    async with grpc.aio.insecure_channel(f"unix:{stack.data}/run/locks.sock") as channel:
        access, locks = AccessServiceStub(channel), LockServiceStub(channel)
        user = await access.Authenticate(AuthenticateRequest(token=stack.tokens["alice"]))
        asked = CheckAccessRequest(user_id=user.user_id, repository="demo/assets", permission=PERMISSION_WRITE)
        found = await access.CheckAccess(asked)

        async def work() -> None:
            for path in waiting:
                request = CreateLockRequest(repository_id=found.repository_id, user_id=user.user_id, path=path)
                ids[path] = (await locks.CreateLock(request)).lock.id

        await asyncio.gather(*(work() for _ in range(_MAX_CONCURRENCY)))
    return ids


async def _come_and_go(client: Client, doomed: list[str], stop: asyncio.Event) -> None:
    """Remove one of the doomed locks and make a new one, in turns; then make and remove new ones."""
    number = 0
    while not stop.is_set():
        number += 1
        made = await client.lock(f"passing/{number}.dat")
        assert made.status_code == 201
        goes = doomed.pop() if doomed else made.json()["lock"]["id"]
        assert (await client.unlock(goes)).status_code == 200


async def _listed(client: Client, limit: int) -> list[dict[str, Any]]:
    return await client.all_locks(limit=limit)


async def _verified(client: Client, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    body: dict[str, Any] = {"limit": limit}
    while True:
        answer = await client.post("locks/verify", **body)
        assert answer.status_code == 200
        page = answer.json()
        assert page["theirs"] == []
        found += page["ours"]
        if not page.get("next_cursor"):
            return found
        body["cursor"] = page["next_cursor"]


@pytest.mark.drill
async def test_ten_thousand_locks_are_listed_without_loss_or_repeat(alice: Client, crowded: Stack) -> None:
    """Whatever comes and goes meanwhile, every standing lock is listed once, by every page size and by verify."""
    paths = [f"standing/{n}.dat" for n in range(STANDING)]
    every = STANDING // DOOMED
    for n in range(DOOMED):
        paths.insert(n * (every + 1), f"doomed/{n}.dat")
    ids = await _make(crowded, paths)
    standing = {ids[path]: path for path in paths if path.startswith("standing/")}
    doomed = [ids[path] for path in paths if path.startswith("doomed/")]
    stop = asyncio.Event()
    changing = asyncio.create_task(_come_and_go(alice, doomed, stop))
    try:
        for walk, limit in ((_listed, 100), (_listed, 1000), (_verified, 1000), (_verified, 333)):
            assert not changing.done()
            found = [lock["id"] for lock in await walk(alice, limit)]
            assert len(set(found)) == len(found)
            assert standing.keys() <= set(found)
    finally:
        stop.set()
        await changing
    assert len(doomed) < DOOMED
    left = {lock["id"]: lock["path"] for lock in await alice.all_locks() if not lock["path"].startswith("passing/")}
    assert left.keys() == standing.keys() | set(doomed)
    assert {lock_id: left[lock_id] for lock_id in standing} == standing


@pytest.mark.drill
async def test_page_ends_with_the_lock_that_is_removed(alice: Client) -> None:
    """A page after a lock that has gone since begins with the next one (trap-16)."""
    for n in range(20):
        assert (await alice.lock(f"passing/paged-{n}.dat")).status_code == 201
    first = (await alice.locks(limit=10)).json()
    assert len(first["locks"]) == 10
    assert (await alice.unlock(first["locks"][-1]["id"])).status_code == 200
    rest = (await alice.locks(limit=10, cursor=first["next_cursor"])).json()
    again = (await alice.locks(limit=19)).json()["locks"]
    assert again == first["locks"][:-1] + rest["locks"]
