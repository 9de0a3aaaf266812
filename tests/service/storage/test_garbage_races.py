"""Collections of garbage amid announcements and uploads, and killed ones: nobody relies on an object that then goes."""

import asyncio
import os
import random
import time
from typing import Any

import grpc
import pytest
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import ServiceError
from tests.service.storage.conftest import Sql
from tests.service.storage.test_garbage import MANY, NOBODY, announce, nothing_staged
from tests.support.garbage import Collected, collect, header, retained
from tests.support.storage import RunningStorage, StorageClient, StorageProcess, oid_of
from tests.support.waiting import STEP_SECONDS, until

PRESENT, REMOVED, MISSING = pb.OBJECT_STATUS_PRESENT, pb.OBJECT_STATUS_REMOVED, pb.OBJECT_STATUS_MISSING
GARBAGE = "SELECT count(*) FROM storage.objects WHERE is_collected"
AGED = "UPDATE storage.objects SET created_at = now() - interval '1 day', used_at = NULL WHERE removed_at IS NULL"


async def announced(storage: StorageClient, oids: list[str]) -> set[str]:
    """Return which of these objects a client need not upload."""
    return {oid for oid, status in zip(oids, await announce(storage, *oids), strict=True) if status == PRESENT}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_uploads_amid_collections(storage: RunningStorage, sql: Sql, streamed: bool) -> None:
    """An object that was acknowledged during a collection is held after it, whatever it was before."""
    contents = [os.urandom(100) for _ in range(40)]
    oids = [oid_of(content) for content in contents]
    for content in contents:
        await storage.write(1, content)
    for _ in range(8):
        await sql(AGED)
        collection = asyncio.ensure_future(collect(storage, [NOBODY], apply=True, grace=3600))
        await asyncio.gather(*(storage.write(1, content, streamed=streamed) for content in contents))
        await collection
        assert set(await storage.statuses(1, *oids)) == {PRESENT}
    for oid, content in zip(oids, contents, strict=True):
        assert await storage.read(1, oid) == content
    assert await sql("SELECT count(*) FROM storage.objects WHERE is_collected OR bin_until IS NOT NULL") == "0"


async def test_a_killed_collection_goes_on(process: StorageProcess, client: StorageClient, sql: Sql) -> None:
    """Objects that a killed collection has removed are removed, the rest is held, and a repeat removes it."""
    await process.start()
    await sql(MANY)
    await sql(
        "CREATE FUNCTION storage.dawdle() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END';"
        "CREATE TRIGGER dawdle AFTER UPDATE OF removed_at ON storage.objects EXECUTE FUNCTION storage.dawdle()"
    )
    kept = (await sql("SELECT string_agg(oid, ' ') FROM storage.objects WHERE oid > '8'")).split()
    call = client.stub.CollectGarbage(iter([header(1, apply=True), *retained(kept)]), timeout=STEP_SECONDS)
    async for response in call:
        if response.WhichOneof("content") == "progress":
            await process.stop()
            break
    with pytest.raises(grpc.aio.AioRpcError):
        [response async for response in call]
    await sql("DROP TRIGGER dawdle ON storage.objects")
    removed = int(await sql(GARBAGE))
    assert 0 < removed < 1000 - len(kept)
    await process.start()
    again = await collect(client, kept, apply=True)
    assert again.result is not None
    assert again.result.removed_count == int(await sql(GARBAGE)) - removed
    assert set(await client.statuses(1, *kept)) == {PRESENT}
    # The list of the killed collection is forgotten a day later.
    assert await sql("SELECT count(*) FROM storage.collections") == "1"
    await sql("UPDATE storage.collections SET created_at = created_at - interval '25 hours'")
    await client.delete(1, kept[0])  # which wakes the sweep
    await until(lambda: nothing_staged(sql))


@pytest.mark.drill
async def test_kills_at_random_moments(process: StorageProcess, client: StorageClient, sql: Sql) -> None:
    """Whenever a service is killed, the retained objects are held, and so are those that it promised to a push."""
    await process.start()
    contents = [os.urandom(100 + number) for number in range(60)]
    oids = [await client.write(1, content) for content in contents]
    kept = set(oids[:20])
    chance = random.Random(5)  # noqa: S311 - no secret

    async def push(promised: set[str]) -> None:
        await asyncio.sleep(chance.random() / 20)
        promised |= await announced(client, chance.sample(oids, 10))

    def work(promised: set[str]) -> list[asyncio.Future[Any]]:
        pushes = [asyncio.ensure_future(push(promised)) for _ in range(4)]
        return [asyncio.ensure_future(collect(client, kept, apply=True)), *pushes]

    await sql(AGED)
    began = time.monotonic()
    await asyncio.gather(*work(set()))
    whole = time.monotonic() - began
    await announced(client, oids)
    removed = rounds = 0
    # Some kills come before anything is removed, on a busy machine all of the first ones.
    while rounds < 8 or (not removed and rounds < 100):
        rounds += 1
        await sql(AGED)
        promised = set[str]()
        started = work(promised)
        await asyncio.sleep(chance.uniform(0, whole))
        await process.stop()
        for outcome in await asyncio.gather(*started, return_exceptions=True):
            assert outcome is None or isinstance(outcome, Collected | ServiceError | grpc.aio.AioRpcError)
        await process.start()
        removed += int(await sql(GARBAGE))
        assert set(await client.statuses(1, *kept, *promised)) == {PRESENT}
        for oid, content in zip(oids, contents, strict=True):
            if oid in kept | promised:
                assert await client.read(1, oid) == content
        await announced(client, oids)
    # Otherwise no kill came amid a collection.
    assert removed > 0


@pytest.mark.parametrize("bin_days", ["30", "0"])
async def test_garbage_of_the_journal(process: StorageProcess, client: StorageClient, bin_days: str) -> None:
    """A crash, after which the journal is read again, brings no garbage back; what is retained or undeleted is whole.

    The objects are so small that their bytes came by the journal.
    """
    process.overrides["TOWPATH_STORAGE_BIN_DAYS"] = bin_days
    await process.start()
    contents = [os.urandom(200 + number) for number in range(40)]
    oids = [await client.write(1, content) for content in contents]
    assert client.segments()
    kept, garbage = oids[::2], oids[1::2]
    collected = await collect(client, kept, apply=True)
    assert collected.result is not None
    assert collected.result.removed_count == len(garbage)
    await process.stop()
    await process.start()
    assert set(await client.statuses(1, *kept)) == {PRESENT}
    gone = REMOVED if bin_days == "30" else MISSING
    assert set(await client.statuses(1, *garbage)) == {gone}
    if bin_days == "30":
        for oid in garbage[::2]:
            assert (await client.restore(1, oid)).HasField("object")
        held = sorted({*kept, *garbage[::2]})
    else:
        held = sorted(kept)
        await until(lambda: client.files() == sorted(client.path(oid) for oid in held))
    for oid, content in zip(oids, contents, strict=True):
        if oid in held:
            assert await client.read(1, oid) == content
    # An upload brings the rest back.
    for content in contents:
        await client.write(1, content)
    assert set(await client.statuses(1, *oids)) == {PRESENT}
