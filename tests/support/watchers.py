"""A crowd that watches the locks of one repository, over HTTP and over gRPC, while others change them."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import grpc
import httpx
from towpath.locks.v1 import lock_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2_grpc import LockServiceStub

from tests.support.event_stream import Follower
from tests.support.http import Client
from tests.support.waiting import LONG_SECONDS, until

_PAUSE_SECONDS = 0.2
_NAMES = {pb.LOCK_EVENT_TYPE_CREATED: "lock.created", pb.LOCK_EVENT_TYPE_RELEASED: "lock.released"}

Change = tuple[str, str]
"""The name of an event, and the id of its lock. A lock is created once, and released once."""


@dataclass(frozen=True)
class Heard:
    """A change as a watcher has heard of it, and when (`time.time`)."""

    change: Change
    path: str
    came_at: float


@dataclass
class GrpcFollower:
    """Somebody who calls WatchLocks, and again after the last position whenever the call ends."""

    repository_id: int
    heard: list[Heard] = field(default_factory=list)
    position: str | None = None

    async def follow(self, channel: grpc.aio.Channel) -> None:
        """Follow until cancelled; a reset is an error."""
        while True:
            request = pb.WatchLocksRequest(repository_id=self.repository_id, after=self.position)
            call = LockServiceStub(channel).WatchLocks(request, wait_for_ready=True)
            with suppress(grpc.aio.AioRpcError):
                async for response in call:
                    assert not response.reset
                    for event in response.events:
                        change = _NAMES[event.type], event.lock.id
                        self.heard.append(Heard(change, event.lock.path, time.time()))
                    self.position = response.position
            await asyncio.sleep(_PAUSE_SECONDS)


@dataclass
class Crowd:
    """The watchers, and the changes that were acknowledged, each with the time of its acknowledgement."""

    followers: list[Follower]
    grpc_followers: list[GrpcFollower]
    made: dict[Change, float] = field(default_factory=dict)

    def heard(self) -> list[list[Heard]]:
        """Return what each watcher has heard."""
        over_http = [
            [Heard((event.name, event.data["lock"]["id"]), event.path, event.came_at) for event in follower.events]
            for follower in self.followers
        ]
        return [*over_http, *(follower.heard for follower in self.grpc_followers)]

    async def watch(
        self, http: httpx.AsyncClient, work: Callable[[], Awaitable[None]], *, channel: grpc.aio.Channel | None = None
    ) -> None:
        """Watch during the work, and until each has heard of as many changes as were made."""
        tasks = [
            *(asyncio.create_task(follower.follow(http)) for follower in self.followers),
            *(asyncio.create_task(follower.follow(channel)) for follower in self.grpc_followers if channel is not None),
        ]
        try:
            await until(self._all_watch, "all watch", seconds=LONG_SECONDS)
            await work()
            await until(self._all_heard, "all have heard of everything", seconds=LONG_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended

    def _all_watch(self) -> bool:
        return all(follower.is_ready.is_set() for follower in self.followers) and all(
            follower.position is not None for follower in self.grpc_followers
        )

    def _all_heard(self) -> bool:
        counts = [len(follower.events) for follower in self.followers]
        counts += [len(follower.heard) for follower in self.grpc_followers]
        return min(counts) >= len(self.made)

    async def change(self, client: Client, name: str, count: int, *, pause_seconds: float = 0.0) -> None:
        """Lock and unlock a path in turn, until so many changes are acknowledged; repeat what was not."""
        path, lock_id = f"watched/{name}", ""
        for number in range(count):
            if number % 2 == 0:
                lock_id = await self._lock(client, path)
                self.made["lock.created", lock_id] = time.time()
            else:
                await self._unlock(client, lock_id)
                self.made["lock.released", lock_id] = time.time()
            await asyncio.sleep(pause_seconds)

    async def _lock(self, client: Client, path: str) -> str:
        while True:
            answer = await _answer(client.lock(path))
            # After an answer that got lost, the client's own lock stands.
            if answer.status_code in (201, 409):
                return str(answer.json()["lock"]["id"])
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _unlock(self, client: Client, lock_id: str) -> None:
        while True:
            # After an answer that got lost, the lock is not there any more.
            if (await _answer(client.unlock(lock_id))).status_code in (200, 404):
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    def check(self) -> None:
        """Assert that each watcher has heard of each change once, and of the changes of each path in order."""
        for heard in self.heard():
            counts = Counter(each.change for each in heard)
            assert set(counts.values()) <= {1}, [change for change, count in counts.items() if count > 1]
            assert counts.keys() == self.made.keys(), counts.keys() ^ self.made.keys()
            of_path: dict[str, list[Change]] = {}
            for each in heard:
                of_path.setdefault(each.path, []).append(each.change)
            for changes in of_path.values():
                assert changes == [change for change in self.made if change in set(changes)]

    def delays(self) -> list[float]:
        """Return the seconds from each acknowledgement to when each watcher heard of the change, sorted."""
        return sorted(each.came_at - self.made[each.change] for heard in self.heard() for each in heard)


async def _answer(request: Awaitable[httpx.Response]) -> httpx.Response:
    try:
        return await request
    except httpx.TransportError:
        return httpx.Response(503)
