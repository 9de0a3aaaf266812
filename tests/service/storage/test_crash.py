"""SIGKILL of a real process, at the moments that matter: nothing acknowledged is lost, nothing is left over."""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable

import grpc
import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.rpc.options import CHUNK_BYTES
from services.storage.index import objects
from tests.service.storage.conftest import Sql, connected
from tests.support.health import is_serving
from tests.support.storage import StorageClient, StorageProcess, finish, oid_of, upload
from tests.support.waiting import STEP_SECONDS, until, until_answer

PRESENT, MISSING, REMOVED = pb.OBJECT_STATUS_PRESENT, pb.OBJECT_STATUS_MISSING, pb.OBJECT_STATUS_REMOVED

# The commit of an insert sleeps this long: after the bytes are in place, before the record is visible.
SLOW_COMMIT = """
    CREATE FUNCTION storage.dawdle() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON storage.objects DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION storage.dawdle()
"""
SESSIONS = "FROM pg_stat_activity WHERE application_name = 'towpath-storage' AND datname = current_database()"


async def fails(call: Awaitable[object]) -> None:
    """See that a call fails, since its service is gone."""
    with pytest.raises(grpc.aio.AioRpcError):
        await call


async def test_killed_amid_an_upload(process: StorageProcess, client: StorageClient) -> None:
    """The bytes of a killed upload must be swept after the next start (trap-2)."""
    await process.start()
    call = await client.begin(*upload(1, "0" * 64, 1 << 30, [b"x" * CHUNK_BYTES] * 3))
    await until(lambda: client.root.exists() and any(path.stat().st_size for path in client.incoming()))
    await process.stop()
    await fails(call)
    assert len(client.incoming()) == 1
    await process.start()
    await until(lambda: client.files() == [])


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_killed_between_the_bytes_and_the_commit(
    process: StorageProcess, client: StorageClient, sql: Sql, streamed: bool
) -> None:
    """Bytes in place whose record was never committed are swept at the next start."""
    await sql(SLOW_COMMIT.format(seconds=3600))
    await process.start()
    oid = oid_of(b"data")
    call = asyncio.ensure_future(client.write(1, b"data", streamed=streamed))
    await until(lambda: client.path(oid).exists())
    await process.stop()
    await fails(call)
    await sql(f"SELECT pg_terminate_backend(pid) {SESSIONS}")
    assert len(client.files()) == 1
    await process.start()
    await until(lambda: client.files() == [])
    assert await client.statuses(1, oid) == [MISSING]


async def test_killed_while_the_commit_goes_on(process: StorageProcess, client: StorageClient, sql: Sql) -> None:
    """A commit that Postgres ends after the process was killed counts: the sweep waits for it and keeps the bytes."""
    await sql(SLOW_COMMIT.format(seconds=10))
    await process.start()
    oid = oid_of(b"data")
    call = asyncio.ensure_future(client.write(1, b"data"))
    # The bytes are in place a moment before Postgres is told to commit; a process killed in it commits nothing.
    await until_answer("1", lambda: sql(f"SELECT count(*) {SESSIONS} AND wait_event = 'PgSleep'"))
    await process.stop()
    await fails(call)
    await process.start()
    await until_answer([PRESENT], lambda: client.statuses(1, oid))
    assert client.segments() == []
    assert await sql("SELECT count(*) FROM storage.uploads") == "0"
    assert await client.read(1, oid) == b"data"


async def test_killed_between_tombstone_and_bytes(
    process: StorageProcess, client: StorageClient, sql: Sql, database_url: SecretStr
) -> None:
    """Bytes of an object that is removed and purged already go after the next start."""
    await process.start()
    oid = await client.write(1, b"data")
    async with connected(database_url) as connection:
        await objects.hold_deletions(connection)
        await client.delete(1, oid)
        await client.purge(1, oid)
        await process.stop()
        await process.start()
        # Whoever holds deletions, such as a backup, may still read it.
        assert client.path(oid).exists()
        await process.stop()
    assert client.path(oid).exists()
    assert await sql("SELECT count(*) FROM storage.discards") == "1"
    await process.start()
    await until(lambda: client.files() == [])
    await until_answer("0", lambda: sql("SELECT count(*) FROM storage.discards"))


@pytest.mark.drill
async def test_killed_at_any_moment(process: StorageProcess, client: StorageClient, sql: Sql) -> None:
    """After kills amid many uploads and removals, every acknowledged one holds, and no file is left over."""
    acknowledged: dict[str, pb.ObjectStatus.ValueType] = {}
    moments = random.Random(7)  # noqa: S311 - moments, not secrets

    async def work() -> None:
        while True:
            content = os.urandom(moments.randrange(1, 3 * CHUNK_BYTES))
            oid = await client.write(1, content)
            acknowledged[oid] = PRESENT
            if moments.random() < 0.4:
                # Until it is acknowledged, either is right.
                del acknowledged[oid]
                await client.delete(1, oid)
                acknowledged[oid] = REMOVED
                if moments.random() < 0.5:
                    await client.purge(1, oid)

    rounds = 0
    while rounds < 4 or len(acknowledged) <= 10:
        rounds += 1
        await process.start()
        workers = [asyncio.create_task(work()) for _ in range(4)]
        await asyncio.sleep(moments.uniform(0.1, 1.0))
        await process.stop()
        # A call that is cut off at some moments is told as cancelled.
        for ended in await asyncio.gather(*workers, return_exceptions=True):
            assert isinstance(ended, grpc.aio.AioRpcError | asyncio.CancelledError)
    await process.start()
    assert await client.statuses(1, *acknowledged) == list(acknowledged.values())
    for oid, status in acknowledged.items():
        if status == PRESENT:
            assert oid_of(await client.read(1, oid)) == oid
    kept = "SELECT oid FROM storage.objects WHERE removed_at IS NULL OR bin_until IS NOT NULL ORDER BY oid"
    oids = (await sql(kept)).split()
    await until(lambda: client.oids() == oids)
    assert await sql("SELECT count(*) FROM storage.uploads") == "0"


async def test_terminated(process: StorageProcess, client: StorageClient) -> None:
    """SIGTERM lets an upload that goes on finish within the bound, and the process ends with 0."""
    await process.start()
    header, first, second = upload(1, oid_of(b"data"), 4, [b"da", b"ta"])
    call = await client.begin(header, first)
    await until(lambda: bool(client.incoming()))
    stopping = asyncio.create_task(process.stop(signal.SIGTERM))
    await until_answer(expected=False, ask=lambda: is_serving(client.channel))
    assert (await finish(call, second)).size == 4
    assert await stopping == 0
    assert client.files() == [client.path(oid_of(b"data"))]


async def test_settings_are_told(process: StorageProcess) -> None:
    """A setting that cannot be used ends the process with a line that names it, and without the password."""
    settings = {"URL": "ftp://bucket", "LISTEN": "0.0.0.0:0", "DATABASE_URL": "mysql://u:hunter2@h/d"}
    broken = [
        StorageProcess(process.database_url, process.folder, overrides={f"TOWPATH_STORAGE_{name}": value})
        for name, value in settings.items()
    ]
    ended = [each.run() for each in broken]
    assert [await asyncio.to_thread(each.wait, STEP_SECONDS) for each in ended] == [1, 1, 1]
    log = (process.folder / "log").read_text()
    assert "storage_url: expected file:///ABSOLUTE/FOLDER, got ftp" in log
    assert "service_secret: needed" in log
    assert "database url: expected postgresql" in log
    assert "hunter2" not in log
    assert "Traceback" not in log


async def test_migrate_command(process: StorageProcess) -> None:
    """`python -m services.storage migrate` needs only the database."""
    migration = process.run("migrate")
    assert await asyncio.to_thread(migration.wait, STEP_SECONDS) == 0
