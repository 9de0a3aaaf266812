"""GET without a call to storage, and what ends that within a second: removals, used-up bandwidth, and not knowing."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY
from pydantic import SecretStr
from sqlalchemy.engine import make_url
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.storage.v1 import storage_service_pb2 as pb

from tests.service.facade.conftest import Inner
from tests.service.facade.own_process import facade_process
from tests.support.facade import SIGNING_KEY, RunningFacade, running_facade
from tests.support.http import Action, Client, content
from tests.support.locks import RunningLocks, running_locks
from tests.support.postgres import TestPostgres
from tests.support.service_process import wait_ready
from tests.support.storage import RunningStorage, running_storage
from tests.support.waiting import STEP_SECONDS, until

PROMISED_SECONDS = 1.0
WATCHED_SECONDS = 1.5
ENOUGH = 20
"""Refusals in a row, after which nobody is let in again."""
SMALL, LARGE = 60_000, 3_000_000


def _asked() -> float:
    """Return how often storage was asked where an object lies, or to send it."""
    calls = 0.0
    for method in ("LocateObject", "ReadObject"):
        for status in ("OK", "NOT_FOUND", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED"):
            labels = {"method": f"/towpath.storage.v1.StorageService/{method}", "status": status}
            calls += REGISTRY.get_sample_value("towpath_grpc_requests_total", labels) or 0
    return calls


@dataclass
class Site:
    """A facade that shares the disk with a storage service of its own, and a repository."""

    storage: RunningStorage
    locks: RunningLocks
    facade: RunningFacade
    sql: Callable[[str], Awaitable[str]]
    repository_id: int
    token: str
    http: httpx.AsyncClient
    moved: int = 0
    """The bytes that `get` has moved."""

    async def action(self, data: bytes) -> Action:
        """Store an object, and return the action that downloads it when its place is told."""
        await self.storage.write(self.repository_id, data)
        async with Client(f"{self.facade.origin}/studio/film", "alice", self.token) as alice:
            action = await alice.offered("download", data)
            # The first time the folder has yet to be opened, and storage to listen.
            async with asyncio.timeout(STEP_SECONDS):
                while True:
                    before = _asked()
                    await self.get(action)
                    if _asked() == before:
                        return action
                    action = await alice.offered("download", data)

    async def get(self, action: Action, **headers: str) -> httpx.Response:
        """Download."""
        answer = await self.http.get(action.href, headers={**action.header, **headers})
        self.moved += len(answer.content) if answer.is_success else 0
        return answer

    async def last_ok(self, action: Action, status: int, since: float) -> float:
        """Ask until the end is sure or overdue; return how long after `since` the last request that got in was sent.

        All others are answered with this status.
        """
        last, refused = 0.0, 0
        while refused < ENOUGH and (sent := time.monotonic()) < since + WATCHED_SECONDS:
            answer = await self.get(action)
            if answer.status_code == 200:
                last, refused = sent - since, 0
            else:
                assert answer.status_code == status, answer.text
                refused += 1
            await asyncio.sleep(0.02)
        return last

    async def is_counted(self) -> bool:
        """Tell whether storage has counted what was moved as read, each byte once."""
        return int(await self.sql("SELECT coalesce(sum(bytes_out), 0) FROM storage.traffic")) == self.moved


@asynccontextmanager
async def _site(postgres: TestPostgres, folder: Path, url: SecretStr, **storage_settings: Any) -> AsyncIterator[Site]:  # noqa: ANN401 - settings
    async def sql(statement: str) -> str:
        return await postgres.execute(statement, database=make_url(url.get_secret_value()).database or "")

    async with (
        running_storage(url, folder, **storage_settings) as storage,
        running_locks(url, folder, storage_address=storage.address) as locks,
        running_facade(storage.address, locks.address, shared_storage_path=storage.root) as facade,
        httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http,
    ):
        if await sql("SELECT count(*) FROM locks.users WHERE name = 'alice'") == "0":
            await locks.add_user("alice")
            await locks.add_repository("studio/film")
            await locks.grant("alice", "studio/film", admin.ROLE_WRITE)
        repository_id = int(await sql("SELECT id FROM locks.repositories WHERE name = 'studio/film'"))
        token = await locks.add_token("alice", f"token-{time.monotonic_ns()}")
        yield Site(storage, locks, facade, sql, repository_id, token, http)


@pytest.fixture
async def site(postgres: TestPostgres, database_url: SecretStr, tmp_path: Path) -> AsyncIterator[Site]:
    """A site where bandwidth is not limited."""
    async with _site(postgres, tmp_path, database_url) as site:
        yield site


async def test_no_call_is_made_while_all_is_well(site: Site) -> None:
    """For small objects and large ones, parts of them, and what the client holds; what was sent is counted once."""
    objects = [content("small", SMALL), content("large", LARGE), b""]
    actions = [await site.action(data) for data in objects]

    async def makes_no_call() -> bool:
        asked = _asked()
        for data, action in zip(objects, actions, strict=True):
            assert (await site.get(action)).content == data
        for data, action in zip(objects[:2], actions[:2], strict=True):
            part = await site.get(action, Range="bytes=10-19")
            assert (part.status_code, part.content) == (206, data[10:20])
        return _asked() == asked

    # Where the machine stands still for a second the facade does not know of removals, and has to ask.
    await until(makes_no_call)
    await until(site.is_counted)


async def test_a_removed_object_stops_within_a_second(site: Site) -> None:
    """As does all that is asked for of it; others go on, and soon without a call again."""
    removed, other = await site.action(content("removed", SMALL)), await site.action(content("other", SMALL))
    await site.storage.delete(site.repository_id, removed.href.rpartition("/")[2])
    assert await site.last_ok(removed, 410, time.monotonic()) < PROMISED_SECONDS
    for headers in ({"Range": "bytes=0-1"}, {"If-None-Match": "*"}):
        assert (await site.get(removed, **headers)).status_code == 410
    assert (await site.get(other)).status_code == 200


async def test_a_removal_stops_within_a_second_while_the_feed_is_cut(site: Site) -> None:
    """Without the feed a facade does not know of removals, so it must ask storage."""
    action = await site.action(content("cut", SMALL))
    await site.sql("ALTER TABLE storage.objects DISABLE TRIGGER object_removed")
    await site.storage.delete(site.repository_id, action.href.rpartition("/")[2])
    assert await site.last_ok(action, 410, time.monotonic()) < PROMISED_SECONDS


async def test_a_removal_is_not_missed_while_the_feed_begins_anew(site: Site) -> None:
    """The second listener does not know of removals before it, so the facade must ask about all earlier places."""
    action = await site.action(content("anew", SMALL))
    await site.sql(
        "BEGIN; SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%pg_trigger%' "
        "AND application_name = 'towpath-storage' AND datname = current_database(); "
        "UPDATE storage.objects SET removed_at = now(), removal_reason = 'x'; COMMIT"
    )
    assert await site.last_ok(action, 410, time.monotonic()) < PROMISED_SECONDS


async def test_a_removal_is_not_missed_by_a_restart_of_storage(
    postgres: TestPostgres, database_url: SecretStr, tmp_path: Path
) -> None:
    """A new facade asks storage for places older than its watch, so that it serves no removed object."""
    async with _site(postgres, tmp_path, database_url) as site:
        removed, kept = await site.action(content("gone", SMALL)), await site.action(content("kept", SMALL))
        repository = site.repository_id
        await site.storage.delete(repository, removed.href.rpartition("/")[2])
    async with _site(postgres, tmp_path, database_url) as site:
        assert site.repository_id == repository
        for action, status in ((removed, 410), (kept, 200)):
            there = Action(f"{site.facade.origin}/{action.href.split('/', 3)[3]}", action.header)
            # At once, and as the facade comes to know of removals, which nothing tells.
            for _ in range(3):
                assert (await site.get(there)).status_code == status
                await asyncio.sleep(0.3)


async def test_used_up_bandwidth_stops_within_a_second(
    postgres: TestPostgres, database_url: SecretStr, tmp_path: Path
) -> None:
    """Whoever has used it up: this facade's own reads, or those that somebody else reports."""
    async with _site(postgres, tmp_path, database_url, storage_bandwidth_limit=100 * SMALL) as site:
        action = await site.action(content("limited", SMALL))
        asked = _asked()
        for _ in range(10):
            assert (await site.get(action)).status_code == 200
        # Each second begins with a call, and no more.
        assert _asked() - asked <= 4
        others = pb.CountReadsRequest(bytes={site.repository_id: 100 * SMALL})
        reading = asyncio.create_task(site.last_ok(action, 509, time.monotonic()))
        await site.storage.stub.CountReads(others, timeout=STEP_SECONDS)
        assert await reading < PROMISED_SECONDS


async def test_bandwidth_that_this_facade_uses_up_stops_within_a_second(
    postgres: TestPostgres, database_url: SecretStr, tmp_path: Path
) -> None:
    """It is told by its own reports."""
    async with _site(postgres, tmp_path, database_url, storage_bandwidth_limit=20 * SMALL) as site:
        action = await site.action(content("own", SMALL))
        async with asyncio.timeout(STEP_SECONDS):
            began = time.monotonic()
            for _ in range(30):
                await site.get(action)
            assert await site.last_ok(action, 509, time.monotonic()) < PROMISED_SECONDS
            assert time.monotonic() - began < STEP_SECONDS


async def test_an_ended_access_stops_within_a_second(site: Site) -> None:
    """The token that was shown to the batch is revoked."""
    action = await site.action(content("ended", SMALL))
    await site.sql("DELETE FROM locks.tokens")
    assert await site.last_ok(action, 403, time.monotonic()) < PROMISED_SECONDS


async def test_what_was_read_is_counted_when_the_facade_ends(inner: Inner, site: Site, tmp_path: Path) -> None:
    """However soon after the last read: SIGTERM waits for the report."""
    data = content("drained", LARGE)
    settings: dict[str, Any] = {
        "storage_address": site.storage.address,
        "locks_address": site.locks.address,
        "shared_storage_path": site.storage.root,
        "signing_key": SIGNING_KEY,
    }
    action = await site.action(data)
    await until(site.is_counted)
    with facade_process(inner, tmp_path, **settings) as (process, origin):
        await wait_ready(origin)
        there = Action(f"{origin}/{action.href.split('/', 3)[3]}", action.header)
        for _ in range(3):
            assert (await site.get(there)).content == data
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, STEP_SECONDS) == 0
    await until(site.is_counted)
