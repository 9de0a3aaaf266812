"""Postgres goes away for a moment, or the backend does: callers are not told, and nothing is lost."""

import asyncio
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.storage.api.storage_service import SERVICE_NAME
from tests.service.storage.conftest import Sql
from tests.service.storage.test_crash import SESSIONS, SLOW_COMMIT
from tests.support.health import NOT_SERVING, SERVING, health
from tests.support.memory_backend import MemoryBackend
from tests.support.storage import RunningStorage, finish, oid_of, running_storage, upload
from tests.support.waiting import until, until_answer

PRESENT, MISSING = pb.OBJECT_STATUS_PRESENT, pb.OBJECT_STATUS_MISSING
TERMINATE = f"SELECT pg_terminate_backend(pid) {SESSIONS}"


async def test_connections_are_cut(storage: RunningStorage, sql: Sql) -> None:
    """After all connections were cut, every call succeeds at the first try."""
    oid = await storage.write(1, b"data")
    for _ in range(3):
        await asyncio.gather(*(storage.statuses(1, oid) for _ in range(5)))
        await sql(TERMINATE)
        assert await storage.statuses(1, oid) == [PRESENT]
        await sql(TERMINATE)
        assert await storage.read(1, oid) == b"data"
        await sql(TERMINATE)
        await storage.write(2, b"data")
        await sql(TERMINATE)
        await storage.delete(2, oid)
        await sql(TERMINATE)
        await storage.restore(2, oid, bytes_required=False)
    await until(lambda: storage.files() == [storage.path(oid)])


async def test_connection_cut_amid_an_upload(storage: RunningStorage, sql: Sql) -> None:
    """An upload outlives the connections that were there when it began."""
    header, first, second = upload(1, oid_of(b"data"), 4, [b"da", b"ta"])
    call = await storage.begin(header, first)
    await until(lambda: bool(storage.incoming()))
    await sql(TERMINATE)
    await finish(call, second)
    assert await storage.read(1, oid_of(b"data")) == b"data"


async def test_connection_cut_amid_the_commit(storage: RunningStorage, sql: Sql) -> None:
    """A commit that fails after the bytes are in place is repeated: one file, one record."""
    await sql(SLOW_COMMIT.format(seconds=3))
    oid = oid_of(b"data")
    writing = asyncio.create_task(storage.write(1, b"data"))
    await until(lambda: storage.path(oid).exists())
    await sql(f"{TERMINATE} AND state <> 'idle'")
    await writing
    assert storage.files() == [storage.path(oid)]
    assert await storage.statuses(1, oid) == [PRESENT]


async def test_commit_that_cannot_be_made(storage: RunningStorage, sql: Sql) -> None:
    """If the record cannot be written, the bytes in place must be swept without a restart."""
    await sql(SLOW_COMMIT.format(seconds="0 / 0"))
    with pytest.raises(Exception, match="internal error"):
        await storage.write(1, b"data")
    await until(lambda: storage.files() == [])
    await sql("DROP TRIGGER dawdle ON storage.objects")
    await storage.write(1, b"data")
    assert storage.files() == [storage.path(oid_of(b"data"))]


async def test_client_that_goes_away_amid_the_commit(storage: RunningStorage, sql: Sql) -> None:
    """An upload that is whole is kept, also when its sender does not wait for the answer."""
    await sql(SLOW_COMMIT.format(seconds=3))
    oid = oid_of(b"data")
    call = await storage.begin(*upload(1, oid, 4, [b"data"]))
    await call.done_writing()
    await until(lambda: storage.path(oid).exists())
    call.cancel()
    await until(lambda: storage.files() == [storage.path(oid)])
    await until_answer([PRESENT], lambda: storage.statuses(1, oid))


async def test_health_looks_at_the_backend(database_url: SecretStr, tmp_path: Path) -> None:
    """While the backend is broken the service is NOT_SERVING, and SERVING again when it is mended (trap-34)."""
    backend = MemoryBackend()
    async with running_storage(database_url, tmp_path, backend=backend) as storage:
        for broken, status in ((OSError("read-only"), NOT_SERVING), (None, SERVING)):
            backend.broken = broken
            await until_answer(status, lambda: health(storage.channel, SERVICE_NAME))
