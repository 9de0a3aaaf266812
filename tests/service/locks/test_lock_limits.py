"""Limits on standing locks and on the bytes of a page, so that one writer does not make locking slow for all others."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import AlreadyExists, Reason, ResourceExhausted
from services.database.migrations import create_operator_engine, upgrade
from services.database.url import DatabaseUrl
from services.locks.models import SCHEMA
from tests.service.locks.conftest import Team, fill
from tests.support.locks import RunningLocks, refused, running_locks
from tests.support.postgres import TestPostgres

PER_REPOSITORY, PER_USER = 140, 120
"""More than the connections that there can be, so that locks are made side by side at first."""
LIMITS = {"locks_per_repository": PER_REPOSITORY, "locks_per_user": PER_USER}


@pytest.fixture(scope="module")
async def service(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningLocks]:
    """A lock service with small limits, on a database of its own."""
    folder = tmp_path_factory.mktemp("limited")
    async with running_locks(await postgres.create_database(), folder, limits=LIMITS) as running:
        yield running


async def _try(service: RunningLocks, team: Team, user: int, path: str) -> pb.Lock | ResourceExhausted:
    try:
        return await service.create(team.repository_id, user, path)
    except ResourceExhausted as error:
        if error.reason != Reason.TOO_MANY_LOCKS:
            raise
        return error


def _made(found: list[pb.Lock | ResourceExhausted]) -> list[pb.Lock]:
    return [each for each in found if isinstance(each, pb.Lock)]


async def _counted(service: RunningLocks, team: Team) -> list[int]:
    """Return what is counted for the repository, for both users in it together, and what stands."""
    [counted] = await service.execute(
        "SELECT coalesce((SELECT sum(count) FROM locks_per_repository WHERE repository_id = :id), 0),"
        " coalesce((SELECT sum(count) FROM locks_per_user WHERE repository_id = :id), 0),"
        " (SELECT count(*) FROM locks WHERE repository_id = :id)",
        id=team.repository_id,
    )
    return list(counted)


async def test_a_user_holds_as_many_as_the_limit_says(service: RunningLocks, team: Team) -> None:
    """However many are asked for at once: exactly so many, and the refusal names the limit and its setting."""
    paths = [f"mine/{number}" for number in range(PER_USER + 30)]
    found = await asyncio.gather(*(_try(service, team, team.alice, path) for path in paths))
    made = _made(found)
    assert len(made) == PER_USER
    message = next(each.message for each in found if isinstance(each, ResourceExhausted))
    assert str(PER_USER) in message
    assert "locks_per_user" in message
    assert await _counted(service, team) == [PER_USER] * 3
    # Others still have what is left of the repository.
    assert isinstance(await _try(service, team, team.bob, "bobs"), pb.Lock)
    # A place that is given back can be taken again, and not twice.
    await service.delete(team.repository_id, team.alice, made[0].id)
    again = await asyncio.gather(*(_try(service, team, team.alice, f"again/{number}") for number in range(10)))
    assert len(_made(again)) == 1


async def test_a_repository_has_as_many_as_the_limit_says(
    service: RunningLocks, team: Team, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of several users at several lock services; another repository has its own."""
    async with service.second(tmp_path_factory.mktemp("second"), limits=LIMITS) as second:
        asked = [
            (user, at, number) for user in (team.alice, team.bob) for at in (service, second) for number in range(60)
        ]
        found = await asyncio.gather(
            *(_try(at, team, user, f"{user}/{at.address}/{number}") for user, at, number in asked)
        )
    assert len(_made(found)) == PER_REPOSITORY
    message = next(each.message for each in found if isinstance(each, ResourceExhausted))
    assert str(PER_REPOSITORY) in message
    assert "locks_per_repository" in message
    assert await _counted(service, team) == [PER_REPOSITORY] * 3
    other = await service.add_repository(f"other/{team.repository}")
    await service.create(other, team.alice, "free.psd")


async def test_at_the_limit_everything_else_goes_on(service: RunningLocks, team: Team) -> None:
    """A path that is locked is told with its holder, a repeated call gets its lock, and all can be unlocked."""
    await fill(service, team, PER_USER - 1)
    last = await service.create(team.repository_id, team.alice, "last", key="k")
    with refused(ResourceExhausted, Reason.TOO_MANY_LOCKS):
        await service.create(team.repository_id, team.alice, "one too many")
    with refused(AlreadyExists, Reason.PATH_LOCKED) as caught:
        await service.create(team.repository_id, team.alice, "last")
    assert caught.value.detail == last
    assert await service.create(team.repository_id, team.alice, "last", key="k") == last
    await service.delete(team.repository_id, team.alice, last.id)
    await service.create(team.repository_id, team.alice, "one too many")


async def test_locks_of_a_removed_user_count_no_more(service: RunningLocks, team: Team) -> None:
    """A removed user's locks count no more, so that others have room, and the other users' counts stay."""
    await fill(service, team, 20)
    await service.create(team.repository_id, team.bob, "bobs")
    await service.delete_user(team.alice_name, release_locks=True)
    assert await _counted(service, team) == [1, 1, 1]


async def test_pages_have_no_more_bytes_than_the_setting_says(service: RunningLocks, team: Team) -> None:
    """Long paths make pages short, for lists and for verification, and no lock is left out or told twice."""
    locks = [await service.create(team.repository_id, team.alice, f"{number:04}" * 1024) for number in range(70)]
    for most in (1000, 0, 3):
        found: list[pb.Lock] = []
        cursor = "begin"
        while cursor:
            cursor = "" if cursor == "begin" else cursor
            page = await service.list(team.repository_id, cursor=cursor, limit=most)
            verified = await service.verify(team.repository_id, team.alice, cursor=cursor, limit=most)
            assert (list(verified.ours), verified.next_cursor) == (list(page.locks), page.next_cursor)
            assert 0 < len(page.locks) <= (most or 100)
            assert sum(len(lock.path) for lock in page.locks) <= 256 * 1024
            found += page.locks
            cursor = page.next_cursor
        assert found == locks
    assert len((await service.list(team.repository_id, limit=1000)).locks) == 64


async def test_what_stood_before_is_counted(postgres: TestPostgres) -> None:
    """A migration finds the locks that the version before has made."""
    url = await postgres.create_database(empty=True)
    database = DatabaseUrl.parse(url).database or ""
    engine = create_operator_engine(url, "test")
    async with engine.begin() as connection:
        await upgrade(connection, SCHEMA, "0003")
    await postgres.execute(
        "SET search_path = locks; INSERT INTO users (name, administrator) VALUES ('alice', false), ('bob', false);"
        "INSERT INTO repositories (name, public, forced_unlock) VALUES ('a', false, 'admins'), ('b', false, 'admins');"
        "INSERT INTO locks (repository_id, path, path_hash, owner_id, locked_at, idempotency_key)"
        " SELECT r, 'f' || n, sha256(('f' || n)::bytea), CASE WHEN n < 4 THEN 1 ELSE 2 END, now(), ''"
        " FROM generate_series(1, 10) AS n, generate_series(1, 2) AS r WHERE r = 1 OR n < 3",
        database=database,
    )
    async with engine.begin() as connection:
        await upgrade(connection, SCHEMA)
    await engine.dispose()
    here = "SELECT repository_id, sum(count) FROM locks.locks_per_repository GROUP BY 1 ORDER BY 1"
    assert (await postgres.execute(here, database=database)).split() == ["1|10", "2|2"]
    own = "SELECT repository_id, user_id, sum(count) FROM locks.locks_per_user GROUP BY 1, 2 ORDER BY 1, 2"
    assert (await postgres.execute(own, database=database)).split() == ["1|1|3", "1|2|7", "2|1|2"]
