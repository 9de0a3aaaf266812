"""Outages, and more than one replica."""

import asyncio

import pytest

from services.common.errors import AlreadyExists, Reason, Unauthenticated
from tests.service.locks.conftest import Team
from tests.service.locks.issuers import authenticate
from tests.support.locks import RunningLocks, refused
from tests.support.postgres import TestPostgres

_TERMINATE = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'towpath-locks'"


async def test_lost_connections_are_not_seen(service: RunningLocks, team: Team, postgres: TestPostgres) -> None:
    """All connections to Postgres are cut between and during the calls: every call succeeds."""
    token = await service.add_token(team.alice_name)
    for number in range(3):
        assert int(await postgres.execute(_TERMINATE)) > 0
        lock = await service.create(team.repository_id, team.alice, f"f{number}")
        await postgres.execute(_TERMINATE)
        assert list((await service.list(team.repository_id)).locks) == [lock]
        await postgres.execute(_TERMINATE)
        await authenticate(service, token)
        await postgres.execute(_TERMINATE)
        await service.delete(team.repository_id, team.alice, lock.id)


async def test_connections_lost_in_the_midst(service: RunningLocks, team: Team, postgres: TestPostgres) -> None:
    """An acknowledged lock stands exactly once, because a repeated transaction recognizes its own lock."""
    stop = asyncio.Event()

    async def terminate() -> None:
        while not stop.is_set():
            await postgres.execute(_TERMINATE)
            # Longer than all of them take to open on a machine under load: no statement gets through otherwise.
            await asyncio.sleep(0.5)

    terminator = asyncio.create_task(terminate())
    locks = await asyncio.gather(
        *(service.create(team.repository_id, team.alice, f"cut/{number}") for number in range(40))
    )
    await asyncio.gather(*(service.delete(team.repository_id, team.alice, lock.id) for lock in locks[:20]))
    stop.set()
    await terminator
    standing = (await service.list(team.repository_id)).locks
    assert {lock.id for lock in standing} == {lock.id for lock in locks[20:]}


async def test_replicas_answer_the_same(
    service: RunningLocks, team: Team, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Postgres holds all of the state, so a second replica gives the same answers at once (trap-35)."""
    token = await service.add_token(team.alice_name)
    async with service.second(tmp_path_factory.mktemp("replica")) as second:
        lock = await service.create(team.repository_id, team.alice, "f1.dat")
        with refused(AlreadyExists, Reason.PATH_LOCKED):
            await second.create(team.repository_id, team.bob, "f1.dat")
        assert await second.list(team.repository_id) == await service.list(team.repository_id)
        await second.delete(team.repository_id, team.alice, lock.id)
        assert not (await service.list(team.repository_id)).locks
        assert (await authenticate(second, token)).user_id == team.alice
        await second.revoke_token(team.alice_name)
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await authenticate(service, token)
