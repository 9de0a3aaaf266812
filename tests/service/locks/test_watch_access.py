"""WatchAccess: whoever takes an access away, it is told as soon as it is committed, or nothing is told at all."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.access.v1.access_service_pb2_grpc import AccessServiceStub

from services.common.errors import DeadlineExceeded, InvalidArgument, Reason, ServiceError, Unavailable
from services.common.rpc.client import ServiceClient
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, is_refused, refused, running_locks
from tests.support.postgres import TestPostgres, running_postgres
from tests.support.service_process import standing_still
from tests.support.waiting import STEP_SECONDS, until

_TERMINATE = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%pg_trigger%' AND "
_TERMINATE += "application_name = 'towpath-locks'"
LONG = 60.0


class Watcher:
    """Somebody who keeps answers: what the sources have told."""

    def __init__(self, peer: ServiceClient) -> None:
        self.known: dict[str, int] = {}
        self._peer = peer
        self._stub = AccessServiceStub(peer.channel)

    async def ask(self, *, wait: float = 0, deadline: float = STEP_SECONDS) -> bool:
        """Ask, and return whether the answer is news."""
        request = access.WatchAccessRequest(known=self.known, wait_seconds=wait)
        answer = await self._peer.call(self._stub.WatchAccess, request, deadline=deadline)
        is_news = self.known.get(answer.source) != answer.changes
        self.known[answer.source] = answer.changes
        return is_news

    async def begin(self) -> None:
        """Ask until somebody listens, and all that has been is known."""

        async def answers() -> bool:
            return not await is_refused(Unavailable, self.ask())

        await until(answers)


@pytest.fixture
async def watcher(service: RunningLocks) -> Watcher:
    """A watcher who knows all that was before the test."""
    watcher = Watcher(service.peer)
    await watcher.begin()
    return watcher


async def _calls(service: RunningLocks, team: Team) -> AsyncIterator[None]:
    """Take accesses away in every way that an administrator can."""
    await service.add_token(team.alice_name)
    await service.revoke_token(team.alice_name)
    yield
    await service.grant(team.alice_name, team.repository, admin.ROLE_WRITE, ref_patterns=["refs/heads/x"])
    yield
    await service.revoke(team.alice_name, team.repository)
    yield
    await service.update_repository(team.repository, public=True)
    yield
    await service.update_repository(team.repository, new_name="re/named")
    yield
    await service.delete_user(team.bob_name)
    yield


async def test_every_way_to_take_an_access_is_told(service: RunningLocks, team: Team, watcher: Watcher) -> None:
    """Each is news once, for whoever asks after it was acknowledged."""
    async for _ in _calls(service, team):
        assert await watcher.ask()
        assert not await watcher.ask()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE locks.users SET administrator = administrator WHERE name = 'alice'",
        "DELETE FROM locks.tokens WHERE name = 'nothing'",
        "DELETE FROM locks.group_members WHERE false",
        "UPDATE locks.group_grants SET role = 'read' WHERE false",
        "DELETE FROM locks.groups WHERE false",
        "UPDATE locks.tokens SET expires_at = now() WHERE name = 'nothing'",
        "UPDATE locks.grants SET ref_patterns = '{}' WHERE false",
        "UPDATE locks.repositories SET name = name WHERE false",
        "BEGIN; TRUNCATE locks.grants; COMMIT",
        "BEGIN; SET session_replication_role = replica; DELETE FROM locks.grants WHERE false; COMMIT",
    ],
)
async def test_whoever_writes_is_told_of(
    service: RunningLocks, watcher: Watcher, postgres: TestPostgres, statement: str
) -> None:
    """An operator with psql, too, whatever the statement finds."""
    await postgres.execute(statement, database=service.database)
    assert await watcher.ask()


async def test_what_takes_nothing_is_not_told(
    service: RunningLocks, team: Team, watcher: Watcher, postgres: TestPostgres
) -> None:
    """New users, tokens and repositories, locks, and what was not committed."""
    await service.add_user("somebody-new")
    await service.add_token("somebody-new")
    await service.add_repository("some/thing/new")
    lock = await service.create(team.repository_id, team.alice, "watched.psd")
    await service.delete(team.repository_id, team.alice, lock.id)
    await postgres.execute("BEGIN; DELETE FROM locks.grants; ROLLBACK", database=service.database)
    assert not await watcher.ask()


async def test_who_waits_is_told_as_it_happens(service: RunningLocks, team: Team, watcher: Watcher) -> None:
    """The wait ends with the change, for all who wait; without one it ends by itself."""
    assert not await watcher.ask(wait=0.1)
    others = [Watcher(service.peer) for _ in range(20)]
    for other in others:
        other.known = dict(watcher.known)
    waiting = [asyncio.create_task(each.ask(wait=LONG)) for each in (watcher, *others)]
    # Nothing tells that a call waits; one that does not has ended by then.
    await asyncio.sleep(0.2)
    assert not any(task.done() for task in waiting)
    await service.grant(team.alice_name, team.repository, admin.ROLE_READ)
    assert all(await asyncio.gather(*waiting))


async def test_an_answer_has_all_that_was_acknowledged_before(
    service: RunningLocks, team: Team, watcher: Watcher
) -> None:
    """However soon it is asked for: what was notified comes before the answer to a later statement."""
    for _ in range(60):
        await service.grant(team.alice_name, team.repository, admin.ROLE_READ)
        assert await watcher.ask()


async def test_each_copy_hears_what_was_done_at_another(
    service: RunningLocks, team: Team, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """They count for themselves, and a caller who asks them in turn knows both."""
    async with service.second(tmp_path_factory.mktemp("copy")) as second:
        one, two = Watcher(service.peer), Watcher(second.peer)
        two.known = one.known
        for each in (one, two):
            await each.begin()
            assert not await each.ask()
        await service.grant(team.alice_name, team.repository, admin.ROLE_READ)
        assert [await each.ask() for each in (one, two, one, two)] == [True, True, False, False]
        assert len(one.known) == 2


async def test_a_cut_connection_is_another_source(
    service: RunningLocks, watcher: Watcher, postgres: TestPostgres
) -> None:
    """Changes during the cut are unknown, so it must not look as if there had been none."""
    waiting = asyncio.create_task(watcher.ask(wait=LONG))
    # Nothing tells that a call waits.
    await asyncio.sleep(0.1)
    assert await postgres.execute(f"{_TERMINATE} AND datname = '{service.database}'") == "1"
    await postgres.execute("DELETE FROM locks.grants WHERE false", database=service.database)
    with refused(Unavailable, Reason.UNAVAILABLE):
        await waiting
    before = set(watcher.known)
    await watcher.begin()
    assert not set(watcher.known) <= before


@pytest.mark.parametrize("wait", [-1.0, 60.1, float("inf"), float("nan")])
async def test_a_wait_out_of_bounds_is_refused(watcher: Watcher, wait: float) -> None:
    """The message names the field."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, "wait_seconds: "):
        await watcher.ask(wait=wait)


async def test_nothing_is_told_where_the_tables_do_not_tell(
    service: RunningLocks, watcher: Watcher, postgres: TestPostgres
) -> None:
    """As before the migration, or where somebody has turned a trigger off."""
    for off, on in (
        ("DISABLE TRIGGER access_changed", "ENABLE ALWAYS TRIGGER access_changed"),
        ("RENAME TO other_grants", ""),
    ):
        table = "locks.grants"
        await postgres.execute(f"ALTER TABLE {table} {off}", database=service.database)
        try:
            for _ in range(2):
                with refused(Unavailable, Reason.UNAVAILABLE):
                    await watcher.ask()
        finally:
            undo = f"ALTER TABLE {table} {on}" if on else "ALTER TABLE locks.other_grants RENAME TO grants"
            await postgres.execute(undo, database=service.database)
        await watcher.begin()


async def test_nothing_is_told_while_postgres_stands_still(tmp_path: Path) -> None:
    """The service must not claim a state that it cannot find out; once Postgres goes on, it reports everything."""
    async with running_postgres() as own, own.database() as url, running_locks(url, tmp_path) as service:
        watcher = Watcher(service.peer)
        await watcher.begin()
        with standing_still(await own.processes()), pytest.raises(ServiceError) as caught:
            await watcher.ask(deadline=1)
        assert isinstance(caught.value, DeadlineExceeded | Unavailable)
        await watcher.begin()
        await own.execute("DELETE FROM locks.grants", database=service.database)
        assert await watcher.ask()
