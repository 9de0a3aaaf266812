"""Clients that watch the events of locks: their number, their silence, and what happens behind them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from prometheus_client import REGISTRY
from towpath.access.v1 import admin_service_pb2 as admin

from services.facade.clients import lock_feeds
from services.facade.clients.lock_feeds import LockFeeds
from services.facade.clients.lock_parts import Part
from tests.service.facade import raw
from tests.service.facade.conftest import Inner, Place, new_place
from tests.support.event_stream import Follower, SentEvent, next_event, open_stream
from tests.support.facade import RunningFacade, running_facade
from tests.support.http import Client
from tests.support.locks import running_locks, serving_locks
from tests.support.postgres import TestPostgres
from tests.support.waiting import STEP_SECONDS, until, until_answer
from tests.support.watchers import Crowd

IDLE_SECONDS = 0.5
CHANGES = 40
"""By each of several users."""
GAUGES = ("towpath_lock_watches", "towpath_http_requests_in_flight")


@asynccontextmanager
async def place_of(facade: RunningFacade, inner: Inner) -> AsyncIterator[tuple[Place, Client]]:
    """Yield a repository of this facade, and a client of alice."""
    place = await new_place(facade, inner)
    async with place.client() as alice:
        yield place, alice


def credentials(place: Place, user: str = "alice") -> Mapping[str, str]:
    """Return the header of a user."""
    return {"Authorization": f"Bearer {place.inner.tokens[user]}"}


async def test_the_number_of_watches_is_limited(inner: Inner, http: httpx.AsyncClient) -> None:
    """A user has a share of the watches, all have the limit, more are 429, and one that ends makes way.

    Watches do not count as requests: there is one request at a time here.
    """
    async with inner.running_facade(lock_watches=3, requests_in_flight=1) as facade:
        place = await new_place(facade, inner, public=True)
        url = f"{place.base_url}/locks/events"

        async def status(headers: Mapping[str, str]) -> int:
            async with http.stream("GET", url, headers=headers) as answer:
                assert answer.status_code != 429 or answer.headers["retry-after"]
                return answer.status_code

        def gauge(name: str) -> float:
            return REGISTRY.get_sample_value(name) or 0

        before = [gauge(name) for name in GAUGES]
        async with AsyncExitStack() as streams:
            kept = [
                await streams.enter_async_context(open_stream(http, url, headers))
                for headers in (credentials(place), {})
            ]
            for events in kept:
                await next_event(events)
            assert await status(credentials(place)) == 429
            assert await status(credentials(place, "bob")) == 200
            async with open_stream(http, url, credentials(place, "bob")) as last:
                await next_event(last)
                assert await status(credentials(place, "carol")) == 429
            await until_answer(200, partial(status, credentials(place, "carol")))
            async with place.client() as alice:
                await alice.lock("a")
            assert [gauge(name) for name in GAUGES] == [before[0] + len(kept), before[1]]
        await until(lambda: [gauge(name) for name in GAUGES] == before)


async def test_strangers_cannot_take_the_last_watches(inner: Inner, http: httpx.AsyncClient) -> None:
    """They have a tenth of all, a quarter of which may be of one address; whoever signs in there has another share."""
    async with (
        inner.running_facade(lock_watches=80, trusted_proxies="127.0.0.1") as facade,
        AsyncExitStack() as streams,
    ):
        place = await new_place(facade, inner, public=True)
        url = f"{place.base_url}/locks/events"

        async def status(headers: Mapping[str, str], host: int) -> int:
            sent = {**headers, "X-Forwarded-For": f"198.51.100.{host}"}
            return (await streams.enter_async_context(http.stream("GET", url, headers=sent))).status_code

        assert [await status({}, 1) for _ in range(4)] == [200, 200, 429, 429]
        assert [await status({}, host) for host in (2, 2, 3, 3, 4, 4, 5, 5)] == [200] * 6 + [429] * 2
        assert [await status(credentials(place), 1) for _ in range(3)] == [200] * 3


def _calls() -> float:
    return REGISTRY.get_sample_value("towpath_lock_watch_calls") or 0


async def test_many_watchers_are_one_call(inner: Inner, http: httpx.AsyncClient) -> None:
    """Of the lock service; it ends with the last of them."""
    before = _calls()
    async with inner.running_facade() as facade, place_of(facade, inner) as (place, alice):
        async with AsyncExitStack() as streams:
            url = f"{place.base_url}/locks/events"
            watchers = [
                await streams.enter_async_context(open_stream(http, url, credentials(place))) for _ in range(20)
            ]
            assert {(await next_event(events)).name for events in watchers} == {"ready"}
            assert _calls() == before + 1
            await alice.lock("a")
            assert {(await next_event(events)).path for events in watchers} == {"a"}
        await until(lambda: _calls() == before, "the call has ended")


async def test_who_comes_back_gets_what_was_missed(inner: Inner, http: httpx.AsyncClient) -> None:
    """Beside others who have stayed: each event once, with the same ids, and then those of the shared call."""
    before = _calls()
    async with inner.running_facade() as facade, place_of(facade, inner) as (place, alice):
        url = f"{place.base_url}/locks/events"
        async with open_stream(http, url, credentials(place)) as steady:
            await next_event(steady)
            for name in ("a", "b", "c"):
                await alice.lock(name)
            seen = [await next_event(steady) for _ in range(3)]
            for known in (seen[0], seen[2]):
                async with open_stream(http, url, {**credentials(place), "Last-Event-ID": known.id}) as late:
                    assert (await next_event(late)).id == known.id
                    missed = seen[seen.index(known) + 1 :]
                    assert [(await next_event(late)).id for _ in missed] == [event.id for event in missed]
                    await until(lambda: _calls() == before + 1, "the late one has caught up")
                    await alice.lock(f"after {known.path}")
                    seen.append(await next_event(steady))
                    assert (await next_event(late)).id == seen[-1].id


async def test_catching_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not read keeps no other from it, and what came meanwhile is told once.

    A watcher's own call brings what waits for it in the shared feed too.
    """
    monkeypatch.setattr(lock_feeds, "_MAX_CATCHING_UP", 1)
    feeds = LockFeeds(place.inner.locks.peer)
    watches: list[AsyncGenerator[Part | None, None]] = []

    async def paths(watch: AsyncGenerator[Part | None, None], last: str) -> list[str]:
        found: list[str] = []
        async with asyncio.timeout(STEP_SECONDS):
            while last not in found:
                if (part := await anext(watch)) is not None:
                    found += [event.lock.path for event in part.response.events]
        return found

    def watch(after: str | None) -> AsyncGenerator[Part | None, None]:
        watches.append(feeds.watch(place.repository_id, after))
        return watches[-1]

    async with place.client() as alice:
        steady = watch(None)
        while (first := await anext(steady)) is None:
            pass
        begun = first.response.position
        await alice.lock("a")
        assert await paths(steady, "a") == ["a"]
        assert await paths(watch(begun), "a") == ["a"], "and it reads no more"
        late = watch(begun)
        async with feeds._catching_up:
            assert await anext(late) is None, "it is another's turn"
            for path in ("b", "c"):
                await alice.lock(path)
            assert await paths(steady, "c") == ["b", "c"]
        assert await paths(late, "c") == ["a", "b", "c"]
        await alice.lock("d")
        assert await paths(late, "d") == ["d"]
    for each in watches:
        await each.aclose()
    await feeds.close()


async def test_each_change_is_told_once_to_who_comes_and_goes(inner: Inner, http: httpx.AsyncClient) -> None:
    """While several people change locks at once, whatever the order in which the changes are committed."""
    users = ("alice", "bob", "carol")
    async with inner.running_facade() as facade, place_of(facade, inner) as (place, _):
        for user in users[1:]:
            await inner.locks.grant(user, place.name, admin.ROLE_WRITE)
        url = f"{place.base_url}/locks/events"
        crowd = Crowd([Follower(url, credentials(place)) for _ in range(3)], [])
        restless = Follower(url, credentials(place))

        async def come_and_go() -> None:
            while len(restless.events) < len(users) * CHANGES:
                resumed = {"Last-Event-ID": restless.last_id} if restless.last_id else {}
                async with open_stream(http, url, {**restless.headers, **resumed}) as events:
                    restless.last_id = (await next_event(events)).id
                    restless.is_ready.set()
                    for _ in range(min(3, len(users) * CHANGES - len(restless.events))):
                        restless.events.append(await next_event(events))
                        restless.last_id = restless.events[-1].id

        async def work() -> None:
            coming = asyncio.create_task(come_and_go())
            await restless.is_ready.wait()
            async with AsyncExitStack() as clients, asyncio.TaskGroup() as group:
                for user in users:
                    client = await clients.enter_async_context(place.client(user))
                    group.create_task(crowd.change(client, user, CHANGES))
            await coming

        await crowd.watch(http, work)
        crowd.followers.append(restless)
        crowd.check()


async def test_a_client_that_reads_nothing_is_cut_off(inner: Inner) -> None:
    """It must hold neither memory nor a watch."""
    async with inner.running_facade(lock_watches=4, body_idle_seconds=IDLE_SECONDS) as facade:
        place = await new_place(facade, inner)
        path = "x" * 4000
        lines = [f"GET /{place.name}/locks/events HTTP/1.1", "Host: x"]
        lines += [f"{name}: {value}" for name, value in credentials(place).items()]
        async with raw.connected(facade) as (reader, writer):
            writer.write("\r\n".join([*lines, "", ""]).encode())
            await reader.readuntil(b"event: ready")
            reader._transport.pause_reading()  # type: ignore[attr-defined] # asyncio's own way, which it does not type
            async with place.client() as alice, asyncio.timeout(STEP_SECONDS):
                # More than fits on the way.
                for number in range(3_000):
                    await alice.lock(f"{number}{path}")
                    if number % 100 == 99 and await _may_watch(place, facade.origin):
                        break
                else:
                    raise AssertionError("the client is still served")


async def _may_watch(place: Place, origin: str) -> bool:
    async with httpx.AsyncClient(timeout=STEP_SECONDS, trust_env=False) as http:
        try:
            async with open_stream(http, f"{origin}/{place.name}/locks/events", credentials(place)):
                return True
        except httpx.HTTPStatusError:
            return False


async def test_a_facade_that_stops_ends_its_streams(inner: Inner, http: httpx.AsyncClient) -> None:
    """A stream ends whole, and does not keep a facade from stopping."""
    async with AsyncExitStack() as streams:
        async with inner.running_facade() as facade:
            place = await new_place(facade, inner)
            url = f"{place.base_url}/locks/events"
            events = await streams.enter_async_context(open_stream(http, url, credentials(place)))
            assert (await next_event(events)).name == "ready"
        assert [event async for event in events] == []


async def test_a_lock_service_that_is_replaced_is_not_noticed(
    postgres: TestPostgres, tmp_path: Path, inner: Inner, http: httpx.AsyncClient
) -> None:
    """The stream goes on where it was when another lock service takes over, also with what happened meanwhile."""
    url = await postgres.create_database()
    (tmp_path / "one").mkdir()
    async with running_locks(url, tmp_path / "one") as one:
        repository_id = await one.add_repository("studio/film", public=True)
        user = await one.add_user("alice")
        seen: list[SentEvent] = []
        async with AsyncExitStack() as streams:
            first = AsyncExitStack()
            address = await first.enter_async_context(
                serving_locks(url, tmp_path, storage_address=inner.storage.address, name="behind")
            )
            facade = await streams.enter_async_context(running_facade(inner.storage.address, address))
            events = await streams.enter_async_context(
                open_stream(http, f"{facade.origin}/studio/film/locks/events", {})
            )
            assert (await next_event(events)).name == "ready"
            await one.create(repository_id, user, "before")
            seen.append(await next_event(events))
            await first.aclose()
            await one.create(repository_id, user, "meanwhile")
            await streams.enter_async_context(
                serving_locks(url, tmp_path, storage_address=inner.storage.address, name="behind")
            )
            await one.create(repository_id, user, "after")
            seen += [await next_event(events) for _ in range(2)]
        assert [(event.name, event.path) for event in seen] == [
            ("lock.created", path) for path in ("before", "meanwhile", "after")
        ]
