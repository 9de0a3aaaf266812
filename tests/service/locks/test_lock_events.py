"""WatchLocks: each change of a lock is told once and in order, whoever makes it and wherever it is told."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import pytest
from prometheus_client import REGISTRY
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1 import lock_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2_grpc import LockServiceStub

from services.common.errors import AlreadyExists, NotFound, Reason, ResourceExhausted, ServiceError
from services.common.rpc.client import ServiceClient
from services.locks.api import lock_service
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused, running_locks, serving_locks
from tests.support.postgres import TestPostgres
from tests.support.waiting import STEP_SECONDS, until

CREATED, RELEASED, STOLEN = pb.LOCK_EVENT_TYPE_CREATED, pb.LOCK_EVENT_TYPE_RELEASED, pb.LOCK_EVENT_TYPE_STOLEN


class Watch:
    """A watch of one repository: the position that it has reached."""

    def __init__(self, peer: ServiceClient, repository_id: int, after: str | None) -> None:
        request = pb.WatchLocksRequest(repository_id=repository_id, after=after)
        self._call = LockServiceStub(peer.channel).WatchLocks(request, metadata=peer.metadata())
        self._peer = peer
        self.position = ""

    async def read(self) -> pb.WatchLocksResponse:
        """Return the next response."""
        try:
            async with asyncio.timeout(STEP_SECONDS):
                response = await anext(aiter(self._call))
        except grpc.aio.AioRpcError as error:
            raise self._peer.error(error) from error
        self.position = response.position
        return response

    async def events(self, count: int) -> list[pb.LockEvent]:
        """Return the next events, which are exactly as many; nothing was reset."""
        found: list[pb.LockEvent] = []
        while len(found) < count:
            response = await self.read()
            assert not response.reset
            found += response.events
        assert len(found) == count
        return found

    async def rest(self) -> list[pb.LockEvent]:
        """Return the events until the service ends the watch."""
        found: list[pb.LockEvent] = []
        with suppress(StopAsyncIteration):
            while True:
                found += (await self.read()).events
        return found

    def cancel(self) -> None:
        """End the watch."""
        self._call.cancel()


@asynccontextmanager
async def watching(peer: ServiceClient, repository_id: int, *, after: str | None = None) -> AsyncIterator[Watch]:
    """Watch, and know the position at which the watch begins."""
    watch = Watch(peer, repository_id, after)
    try:
        first = await watch.read()
        assert not first.events
        assert not first.reset
        yield watch
    finally:
        watch.cancel()


def seen(events: Iterable[pb.LockEvent]) -> list[tuple[int, str]]:
    """Return the type and the path of each event."""
    return [(event.type, event.lock.path) for event in events]


async def test_what_an_event_tells(service: RunningLocks, team: Team) -> None:
    """An event has the lock, its time, its causer, and the position after it."""
    async with watching(service.peer, team.repository_id) as watch:
        lock = await service.create(team.repository_id, team.alice, "a.psd")
        [created] = await watch.events(1)
        assert (created.type, created.lock, created.caused_by) == (CREATED, lock, team.alice_name)
        assert not created.forced
        assert abs(created.created_at.seconds - lock.locked_at.seconds) <= STEP_SECONDS
        await service.delete(team.repository_id, team.bob, lock.id, force=True)
        [released] = await watch.events(1)
        assert (released.type, released.lock, released.caused_by) == (RELEASED, lock, team.bob_name)
        assert released.forced
        assert released.position == watch.position != created.position
    page = await service.list(team.repository_id)
    assert watch.position.startswith(f"{page.generation}-")


async def test_a_theft_is_one_event(service: RunningLocks, team: Team) -> None:
    """A stolen lock is told with its thief, the reason and the note, and with the lock that made way."""
    previous = await service.create(team.repository_id, team.alice, "a.psd")
    async with watching(service.peer, team.repository_id) as watch:
        request = pb.StealLockRequest(
            repository_id=team.repository_id, user_id=team.bob, id=previous.id, reason="on leave", note="until Friday"
        )
        lock = (await service.peer.call(service.locks.StealLock, request)).lock
        await service.create(team.repository_id, team.alice, "next")
        stolen, following = await watch.events(2)
    assert (stolen.type, following.type) == (STOLEN, CREATED)
    assert (stolen.lock, stolen.lock.note, stolen.caused_by) == (lock, "until Friday", team.bob_name)
    assert (stolen.previous_id, stolen.previous_owner_name) == (previous.id, team.alice_name)
    assert (stolen.reason, stolen.forced) == ("on leave", True)


async def test_a_watch_goes_on_after_any_position(service: RunningLocks, team: Team) -> None:
    """A watch that begins after an event tells those after it, of one that was in the middle of a call too."""
    async with watching(service.peer, team.repository_id) as watch:
        paths = [f"level/{number:02}" for number in range(30)]
        request = pb.CreateLocksRequest(repository_id=team.repository_id, user_id=team.alice, paths=paths)
        await service.peer.call(service.locks.CreateLocks, request)
        events = await watch.events(30)
    assert [event.lock.path for event in events] == paths
    for last in (0, 12, 28):
        async with watching(service.peer, team.repository_id, after=events[last].position) as again:
            assert await again.events(29 - last) == events[last + 1 :]
    async with watching(service.peer, team.repository_id, after=events[-1].position) as again:
        await service.create(team.repository_id, team.bob, "one more")
        assert seen(await again.events(1)) == [(CREATED, "one more")]


async def test_nothing_is_told_of_what_failed(service: RunningLocks, team: Team) -> None:
    """A conflict, and a batch that is taken back, are no changes."""
    await service.create(team.repository_id, team.alice, "taken")
    async with watching(service.peer, team.repository_id) as watch:
        with pytest.raises(ServiceError):
            await service.create(team.repository_id, team.bob, "taken")
        request = pb.CreateLocksRequest(
            repository_id=team.repository_id, user_id=team.bob, paths=["free", "taken"], all_or_nothing=True
        )
        assert (await service.peer.call(service.locks.CreateLocks, request)).failures
        await service.create(team.repository_id, team.bob, "last")
        assert seen(await watch.events(1)) == [(CREATED, "last")]


async def test_concurrent_changes_at_two_services(postgres: TestPostgres, tmp_path: Path) -> None:
    """Users who change the same paths at two services are seen by all watchers, each change once, each path in order.

    One watcher stays, one comes back again and again at the other service.
    """
    url = await postgres.create_database()
    async with running_locks(url, tmp_path) as one, one.second(tmp_path) as other:
        two = other.peer
        repository_id = await one.add_repository("studio/film")
        users = [await one.add_user(f"user{number}") for number in range(6)]
        changes = 0

        async def work(user: int, peer: ServiceClient) -> None:
            nonlocal changes
            stub = LockServiceStub(peer.channel)
            for turn in range(40):
                path = f"shared/{(user + turn) % 5}"
                request = pb.CreateLockRequest(repository_id=repository_id, user_id=user, path=path)
                try:
                    lock = (await peer.call(stub.CreateLock, request)).lock
                except AlreadyExists:
                    continue
                remove = pb.DeleteLockRequest(repository_id=repository_id, user_id=user, id=lock.id)
                await peer.call(stub.DeleteLock, remove)
                changes += 2

        async def stay(seen_events: list[pb.LockEvent], watch: Watch) -> None:
            while True:
                seen_events += (await watch.read()).events

        async def come_and_go(seen_events: list[pb.LockEvent], position: str) -> None:
            for turn in range(1_000_000):
                async with watching(one.peer if turn % 2 else two, repository_id, after=position) as watch:
                    seen_events += (await watch.read()).events
                    position = watch.position

        steady: list[pb.LockEvent] = []
        restless: list[pb.LockEvent] = []
        async with watching(one.peer, repository_id) as watch:
            begun = watch.position
            watchers = [
                asyncio.create_task(stay(steady, watch)),
                asyncio.create_task(come_and_go(restless, begun)),
            ]
            peers = (one.peer, two)
            await asyncio.gather(*(work(user, peers[user % 2]) for user in users))
            await until(lambda: min(len(steady), len(restless)) >= changes)
            for task in watchers:
                task.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)
        async with watching(two, repository_id, after=begun) as watch:
            late = await watch.events(changes)
    assert changes > 0
    for events in (steady, restless, late):
        assert len(events) == changes
        assert [event.position.partition("-")[0] for event in events] == [
            str(generation) for generation in range(2, changes + 2)
        ]
        for path in {event.lock.path for event in events}:
            of_path = [event for event in events if event.lock.path == path]
            # The path is locked and unlocked in turn, each time one lock.
            assert [event.type for event in of_path] == [CREATED, RELEASED] * (len(of_path) // 2)
            assert [event.lock.id for event in of_path[::2]] == [event.lock.id for event in of_path[1::2]]


@pytest.mark.parametrize("after", ["", "nonsense", "5-{id}-4", "99-{id}-98", "1-{other}-"])
async def test_an_unknown_position_is_a_reset(service: RunningLocks, team: Team, after: str) -> None:
    """After a position that is none, is ahead, or is another repository's, a watcher is told to list the locks."""
    position = after.format(id=team.repository_id, other=team.repository_id + 1)
    watch = Watch(service.peer, team.repository_id, position)
    while not (response := await watch.read()).reset:
        assert not response.events
    await service.create(team.repository_id, team.alice, "next")
    assert seen(await watch.events(1)) == [(CREATED, "next")]
    watch.cancel()


async def test_events_that_are_gone_are_a_reset(service: RunningLocks, team: Team) -> None:
    """A watcher whose next events were deleted is told so; one that knows them goes on."""
    async with watching(service.peer, team.repository_id) as watch:
        for number in range(3):
            await service.create(team.repository_id, team.alice, f"path {number}")
        events = await watch.events(3)
    delete = "DELETE FROM lock_events WHERE repository_id = :id AND path = 'path 1'"
    await service.execute(delete, id=team.repository_id)
    lacking = Watch(service.peer, team.repository_id, events[0].position)
    assert not (await lacking.read()).reset
    assert (await lacking.read()).reset
    lacking.cancel()
    async with watching(service.peer, team.repository_id, after=events[1].position) as knowing:
        assert await knowing.events(1) == events[2:]


async def test_too_many_events_are_a_reset(service: RunningLocks, team: Team) -> None:
    """A watcher that lacks more than 10,000 events is told to list the locks instead."""
    async with watching(service.peer, team.repository_id) as watch:
        begun = watch.position
    await service.execute(
        "INSERT INTO locks (repository_id, path, path_hash, owner_id, locked_at, idempotency_key)"
        " SELECT :id, n::text, sha256(n::text::bytea), :owner, now(), '' FROM generate_series(1, 10001) AS n",
        id=team.repository_id,
        owner=team.alice,
    )
    late = Watch(service.peer, team.repository_id, begun)
    while not (response := await late.read()).reset:
        assert not response.events
    late.cancel()


async def test_many_events_come_in_parts(service: RunningLocks, team: Team) -> None:
    """A watcher that lacks many events, or long ones, gets them in responses that each take little time."""
    async with watching(service.peer, team.repository_id) as watch:
        await service.execute(
            "INSERT INTO locks (repository_id, path, path_hash, owner_id, locked_at, idempotency_key)"
            " SELECT :id, path, sha256(path::bytea), :owner, now(), '' FROM ("
            " SELECT lpad(n::text, CASE WHEN n > 300 THEN 4000 ELSE 4 END, '0') AS path"
            " FROM generate_series(1, 400) AS n ORDER BY n) AS paths",
            id=team.repository_id,
            owner=team.alice,
        )
        async with watching(service.peer, team.repository_id, after=watch.position) as late:
            for each in (watch, late):
                told: list[int] = []
                while len(told) < 400:
                    response = await each.read()
                    assert len(response.events) <= 250
                    assert sum(len(event.lock.path) for event in response.events) <= 256 * 1024
                    assert not response.events or response.position == response.events[-1].position
                    told += [int(event.lock.path) for event in response.events]
                assert told == list(range(1, 401))


async def test_the_watches_of_a_caller_are_bounded(
    service: RunningLocks, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more is refused, until one ends."""
    monkeypatch.setattr(lock_service, "_WATCHES_OF_A_HOST", 2)
    await until(lambda: not REGISTRY.get_sample_value("towpath_lock_watch_calls"), "no test before watches")

    async def is_admitted() -> bool:
        watch = Watch(service.peer, team.repository_id, None)
        try:
            await watch.read()
        except ResourceExhausted as error:
            return error.reason != Reason.RATE_LIMITED
        watch.cancel()
        return True

    async with watching(service.peer, team.repository_id):
        async with watching(service.peer, team.repository_id):
            assert not await is_admitted()
        await until(is_admitted, "one has made way")


async def test_a_repository_that_is_none(service: RunningLocks, team: Team) -> None:
    """A watch of a repository that does not exist is refused, and one that is removed ends with the same error."""
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await Watch(service.peer, 10**12, None).read()
    async with watching(service.peer, team.repository_id) as watch:
        # The objects are the storage service's, which does not run here.
        await service.execute("DELETE FROM repositories WHERE id = :id", id=team.repository_id)
        with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
            await watch.rest()


async def test_a_service_that_stops_ends_its_watches(postgres: TestPostgres, tmp_path: Path) -> None:
    """A watch ends without an error when its service stops, and does not keep it from stopping."""
    url = await postgres.create_database()
    async with running_locks(url, tmp_path) as service:
        repository_id = await service.add_repository("studio/film")
        async with serving_locks(url, tmp_path, name="two") as address:
            peer = ServiceClient(address, deadline=STEP_SECONDS)
            watch = Watch(peer, repository_id, None)
            await watch.read()
        assert not await watch.rest()
        await peer.close()


async def test_an_administrator_watches(service: RunningLocks, team: Team) -> None:
    """An administrator watches a repository by name, until the token is revoked."""
    name = f"watcher-{team.alice_name}"
    await service.add_user(name, administrator=True)
    token = await service.add_token(name)
    request = admin.WatchRepositoryLocksRequest(repository=team.repository)
    call = service.admin.WatchRepositoryLocks(request, metadata=(("authorization", f"Bearer {token}"),))
    try:
        assert not (await anext(aiter(call))).changes.events
        await service.create(team.repository_id, team.alice, "a.psd")
        while not (events := (await anext(aiter(call))).changes.events):
            pass
        assert seen(events) == [(CREATED, "a.psd")]
        await service.revoke_token(name)
        async with asyncio.timeout(STEP_SECONDS):
            assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
    finally:
        call.cancel()
