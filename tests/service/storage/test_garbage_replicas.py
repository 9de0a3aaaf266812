"""Collections where several storage services share a database and a disk, and turns to collect."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import ServiceError
from tests.service.storage.conftest import Sql
from tests.service.storage.test_garbage import NOBODY
from tests.service.storage.test_garbage_races import AGED, announced
from tests.support.garbage import Collected, collect
from tests.support.storage import RunningStorage, failure, two_storages
from tests.support.waiting import STEP_SECONDS

PRESENT = pb.OBJECT_STATUS_PRESENT
DONE, FAILED = pb.COLLECTION_OUTCOME_DONE, pb.COLLECTION_OUTCOME_FAILED
WEEK_SECONDS = 7 * 24 * 3600


@pytest.fixture
async def replicas(database_url: SecretStr, tmp_path: Path) -> AsyncIterator[list[RunningStorage]]:
    """Two services of one database and one disk."""
    async with two_storages(database_url, tmp_path) as running:
        yield running


async def test_collections_of_two_replicas(replicas: list[RunningStorage], sql: Sql) -> None:
    """Whichever replica collects, whichever answers a push, and whoever uploads: what was promised is held."""
    contents = [bytes([number]) * 100 for number in range(60)]
    oids = [await replicas[number % 2].write(1, content) for number, content in enumerate(contents)]
    content_of = dict(zip(oids, contents, strict=True))
    chance = random.Random(11)  # noqa: S311 - no secret
    removed = 0

    async def push() -> set[str]:
        """Announce some objects to one replica, and upload what it lacks to the other."""
        await asyncio.sleep(chance.random() / 20)
        asked = chance.sample(oids, 20)
        one, other = chance.sample(replicas, 2)
        held = await announced(one, asked)
        for oid in set(asked) - held:
            await other.write(1, content_of[oid], streamed=chance.random() < 0.5)
        return set(asked)

    async def collection(storage: RunningStorage) -> Collected | ServiceError:
        try:
            return await collect(storage, [NOBODY], apply=True)
        except ServiceError as error:
            return error

    for _ in range(10):
        await sql(AGED)
        collections = [asyncio.ensure_future(collection(storage)) for storage in replicas]
        promised = set[str]().union(*await asyncio.gather(*(push() for _ in range(4))))
        for answer in await asyncio.gather(*collections):
            if isinstance(answer, ServiceError):
                assert answer.reason == "COLLECTION_RUNNING"
            else:
                assert answer.result is not None
                removed += answer.result.removed_count
        statuses = [await storage.statuses(1, *promised) for storage in replicas]
        assert {status for some in statuses for status in some} == {PRESENT}
        for oid in promised:
            assert await chance.choice(replicas).read(1, oid) == content_of[oid]
    # Otherwise nothing has raced.
    assert removed > 0


async def turn(
    storage: RunningStorage,
    holder: str,
    *,
    repository_id: int = 1,
    every: int = WEEK_SECONDS,
    outcome: pb.CollectionOutcome.ValueType = pb.COLLECTION_OUTCOME_UNSPECIFIED,
) -> pb.TakeCollectionTurnResponse:
    """Ask for a turn."""
    request = pb.TakeCollectionTurnRequest(
        repository_id=repository_id, holder=holder, every_seconds=every, outcome=outcome
    )
    return await storage.stub.TakeCollectionTurn(request, timeout=STEP_SECONDS)


async def test_one_of_many_has_the_turn(replicas: list[RunningStorage], sql: Sql) -> None:
    """One caller gets it and keeps it; the next one gets it when its time is over, and not before."""
    asked = await asyncio.gather(*(turn(replicas[number % 2], f"caller {number}") for number in range(20)))
    [first] = [number for number, answer in enumerate(asked) if answer.is_taken]
    assert all(0 < answer.wait_seconds <= 300 for answer in asked if not answer.is_taken)
    holder, other = f"caller {first}", "another"
    began_at = await sql("SELECT began_at FROM storage.collection_turns")
    await sql("UPDATE storage.collection_turns SET held_until = now() + interval '10 seconds'")
    assert (await turn(replicas[0], holder)).is_taken
    assert 200 < (await turn(replicas[1], other)).wait_seconds <= 300
    assert await sql("SELECT began_at FROM storage.collection_turns") == began_at

    await sql("UPDATE storage.collection_turns SET began_at = began_at - interval '1 hour'")
    ended = await turn(replicas[1], holder, outcome=DONE)
    assert not ended.is_taken
    assert WEEK_SECONDS - 3700 < ended.wait_seconds <= WEEK_SECONDS - 3600
    for name in (holder, other):
        assert not (await turn(replicas[0], name)).is_taken
    # Whoever wants it more often has it earlier.
    assert (await turn(replicas[0], other, every=3600)).is_taken
    assert not (await turn(replicas[0], holder, outcome=DONE)).is_taken
    assert (await turn(replicas[0], other)).is_taken


async def test_a_turn_that_failed_or_was_left(replicas: list[RunningStorage], sql: Sql) -> None:
    """After a failure the turn may be taken in ten minutes, and one that nobody keeps when it is over."""
    assert (await turn(replicas[0], "one")).is_taken
    assert 500 < (await turn(replicas[0], "one", outcome=FAILED)).wait_seconds <= 600
    assert not (await turn(replicas[1], "two")).is_taken
    await sql("UPDATE storage.collection_turns SET held_until = now()")
    assert (await turn(replicas[1], "two")).is_taken
    await sql("UPDATE storage.collection_turns SET held_until = now()")
    assert (await turn(replicas[0], "three")).is_taken
    assert not (await turn(replicas[1], "two")).is_taken
    # It has lost the turn, and its end means nothing.
    assert not (await turn(replicas[1], "two", outcome=DONE)).is_taken
    assert (await turn(replicas[0], "three")).is_taken
    assert (await turn(replicas[0], "two", repository_id=2)).is_taken
    await replicas[0].delete_repository(1)
    assert await sql("SELECT string_agg(repository_id::text, ' ') FROM storage.collection_turns") == "2"


@pytest.mark.shared_storage
@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (pb.TakeCollectionTurnRequest(holder="x", every_seconds=3600), "repository_id"),
        (pb.TakeCollectionTurnRequest(repository_id=1, every_seconds=3600), "holder"),
        (pb.TakeCollectionTurnRequest(repository_id=1, holder="x" * 65, every_seconds=3600), "holder"),
        (pb.TakeCollectionTurnRequest(repository_id=1, holder="x", every_seconds=3599), "every_seconds"),
        (pb.TakeCollectionTurnRequest(repository_id=1, holder="x", every_seconds=367 * 86400), "every_seconds"),
    ],
)
async def test_malformed_turns(storage: RunningStorage, request_: pb.TakeCollectionTurnRequest, named: str) -> None:
    """The message names the field."""
    error = await failure(storage.stub.TakeCollectionTurn(request_, timeout=STEP_SECONDS))
    assert error.reason == "INVALID_FIELD"
    assert error.message.startswith(f"{named}:")
