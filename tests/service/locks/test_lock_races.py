"""Many callers at once."""

import asyncio
from collections import Counter
from functools import partial

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import AlreadyExists, NotFound, Reason, ServiceError
from services.database.engine import create_engine
from services.database.statement import rows
from services.locks.locking import pages, table
from tests.service.locks.conftest import Team, fill
from tests.support.locks import RunningLocks

_ROUNDS = 20
_CREATORS = 50


async def test_one_of_many_creators_wins(service: RunningLocks, team: Team) -> None:
    """Two creators must never both win: one of 50 gets the lock and 49 learn its holder, in 20 rounds (trap-14)."""

    async def create(creator: int, path: str) -> pb.Lock | ServiceError:
        try:
            return await service.create(team.repository_id, (team.alice, team.bob)[creator % 2], path)
        except ServiceError as error:
            return error

    for round_number in range(_ROUNDS):
        path = f"contested/{round_number}.psd"
        answers = await asyncio.gather(*(create(creator, path) for creator in range(_CREATORS)))
        won = [answer for answer in answers if isinstance(answer, pb.Lock)]
        lost = [answer for answer in answers if isinstance(answer, AlreadyExists)]
        assert (len(won), len(lost)) == (1, _CREATORS - 1), answers
        assert all(error.reason == Reason.PATH_LOCKED and error.detail == won[0] for error in lost)
        assert won[0].owner_name in (team.alice_name, team.bob_name)
        assert list((await service.list(team.repository_id, path=path)).locks) == won


async def test_a_path_that_is_locked_and_unlocked_all_the_time(service: RunningLocks, team: Team) -> None:
    """Creators that meet a lock which comes and goes get the lock or a conflict, and nothing else."""

    async def create_and_delete(user: int) -> Counter[str]:
        seen: Counter[str] = Counter()
        for _ in range(25):
            try:
                lock = await service.create(team.repository_id, user, "hot.dat")
            except AlreadyExists as error:
                seen["refused"] += 1
                seen["holder named"] += isinstance(error.detail, pb.Lock)
            else:
                seen["locked"] += 1
                await service.delete(team.repository_id, user, lock.id)
        return seen

    seen = sum(await asyncio.gather(*(create_and_delete(user) for user in (team.alice, team.bob) * 4)), Counter())
    assert seen["locked"] + seen["refused"] == 200
    assert seen["locked"] > 0
    assert seen["holder named"] == seen["refused"]
    assert not (await service.list(team.repository_id)).locks


async def test_one_of_many_deletions_wins(service: RunningLocks, team: Team) -> None:
    """Of concurrent deletions of one lock, forced or not, one succeeds; the others find nothing."""
    for _ in range(5):
        lock = await service.create(team.repository_id, team.alice, "f1.dat")

        async def delete(user: int, lock_id: str) -> pb.Lock | ServiceError:
            try:
                return await service.delete(team.repository_id, user, lock_id, force=True)
            except ServiceError as error:
                return error

        answers = await asyncio.gather(*(delete(user, lock.id) for user in (team.alice, team.bob) * 5))
        assert [answer for answer in answers if isinstance(answer, pb.Lock)] == [lock]
        assert sum(isinstance(answer, NotFound) and answer.reason == Reason.LOCK_NOT_FOUND for answer in answers) == 9


async def _rows_read(connection: AsyncConnection) -> int:
    """Return how many rows of the table of locks this transaction has read, by index or not."""
    read = text(
        "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE relname = 'locks'"
    )
    return int(await connection.scalar(read) or 0)


async def test_the_work_does_not_grow_with_the_locks(service: RunningLocks, team: Team) -> None:
    """With 20,000 locks, a creation or a page must read about as many rows as its answer has (trap-15)."""
    await fill(service, team, 20_000)
    engine = create_engine(service.database_url, schema="locks", pool_size=1)
    async with engine.begin() as connection:
        for path, made in (("new.dat", True), ("many/777", False)):
            statement = table.create_statement(
                repository_id=team.repository_id,
                user_id=team.bob,
                path=path,
                idempotency_key="k",
                limits=table.LockLimits(per_repository=100_000, per_user=50_000),
                alone=False,
            )
            [[*_, key]] = await rows(connection, statement)
            assert (key == "k") is made
        assert await _rows_read(connection) < 50
    async with engine.begin() as connection:
        listing = partial(pages.list_statement, team.repository_id)
        found = await rows(connection, listing(after=None, limit=100))
        assert await rows(connection, listing(after=None, limit=100, max_bytes=1 << 18)) == found
        assert len(found) == 100
        last = found[-1][2]
        await rows(connection, listing(after=pages.Position(last), limit=100))
        one = listing(pages.LockFilter(path="many/9"), after=None, limit=1)
        assert [row[3] for row in await rows(connection, one)] == ["many/9"]
        assert await _rows_read(connection) < 500
    await engine.dispose()
