"""Partial uploads where several storage services share a database and a store, and processes are killed or stopped."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from tests.service.storage.conftest import Sql
from tests.service.storage.test_append import HELD, LEFT, MEBIBYTE, PARTS
from tests.service.storage.test_crash import SLOW_COMMIT
from tests.support.appends import PartialUpload
from tests.support.seaweedfs import Prefix, SeaweedFS
from tests.support.storage import StorageClient, StorageProcess
from tests.support.waiting import until_answer


class Replica:
    """A storage service as a process of its own, and its client."""

    def __init__(self, database_url: SecretStr, folder: Path, settings: dict[str, str]) -> None:
        folder.mkdir()
        self.process = StorageProcess(database_url, folder, settings)
        self.client = StorageClient(folder)

    async def close(self) -> None:
        """End it."""
        await self.client.channel.close()
        if self.process.process is not None:
            with suppress(ProcessLookupError):
                self.process.process.send_signal(signal.SIGCONT)
            await self.process.stop()


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.drill)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The place of the objects: a disk, and a bucket."""
    if request.param == "disk":
        return {"TOWPATH_STORAGE_URL": (tmp_path / "bytes").as_uri()}
    server: SeaweedFS = request.getfixturevalue("seaweedfs")
    prefix = Prefix(server, f"appends-{os.urandom(4).hex()}")
    return {"TOWPATH_STORAGE_URL": prefix.url, "TOWPATH_STORAGE_TRANSFER": "relay", **server.environment}


@pytest.fixture
async def replicas(
    database_url: SecretStr, tmp_path: Path, settings: dict[str, str]
) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two services of one database and one store."""
    first, second = (Replica(database_url, tmp_path / name, settings) for name in ("first", "second"))
    try:
        await first.process.start()
        await second.process.start()
        yield first, second
    finally:
        await second.close()
        await first.close()


async def test_another_replica_goes_on(replicas: tuple[Replica, Replica], sql: Sql) -> None:
    """Each call may reach any replica; the object has the bytes of all."""
    first, second = replicas
    data = os.urandom(3 * MEBIBYTE)
    here, there = PartialUpload(first.client, data, user_id=7), PartialUpload(second.client, data, user_id=7)
    await here.append(0, MEBIBYTE)
    assert await there.offset() == MEBIBYTE
    await there.append(MEBIBYTE, 2 * MEBIBYTE)
    assert (await here.append(2 * MEBIBYTE, 3 * MEBIBYTE)).offset == len(data)
    assert await second.client.read(1, there.named) == data
    assert await sql(LEFT) == "0"


async def test_killed_amid_a_part(replicas: tuple[Replica, Replica], sql: Sql) -> None:
    """Only the part is lost that the killed replica was receiving; another replica goes on within a lease."""
    first, second = replicas
    data = os.urandom(3 * MEBIBYTE)
    call = await PartialUpload(first.client, data).begin(0)
    await call.send(data[:MEBIBYTE])
    # A part ends where its client is silent for some seconds.
    await until_answer("1", lambda: sql(PARTS))
    await call.send(data[MEBIBYTE : 2 * MEBIBYTE])
    await until_answer("1", lambda: sql("SELECT count(*) FROM storage.uploads"))
    await first.process.stop()
    there = PartialUpload(second.client, data)
    async with asyncio.timeout(15):
        assert await there.offset() == MEBIBYTE
    assert (await there.append(MEBIBYTE, len(data))).offset == len(data)
    assert await second.client.read(1, there.named) == data
    await call.break_off()
    await until_answer("0", lambda: sql("SELECT (SELECT count(*) FROM storage.uploads)"))
    assert await sql(LEFT) == "0"


async def test_killed_amid_the_writing_of_the_object(replicas: tuple[Replica, Replica], sql: Sql) -> None:
    """All bytes are in parts, so that the next question, at any replica, writes the object before its answer."""
    first, second = replicas
    data = os.urandom(2 * MEBIBYTE)
    here, there = PartialUpload(first.client, data), PartialUpload(second.client, data)
    await here.append(0, MEBIBYTE)
    await sql(SLOW_COMMIT.format(seconds=3600))
    call = await here.begin(MEBIBYTE)
    await call.send(data[MEBIBYTE:])
    ending = asyncio.ensure_future(call.end())
    await until_answer("1", lambda: sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))
    await first.process.stop()
    with pytest.raises(grpc.aio.AioRpcError):
        await ending
    await sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
    await sql("DROP TRIGGER dawdle ON storage.objects")
    async with asyncio.timeout(15):
        assert await there.offset() == len(data)
    assert await second.client.statuses(1, there.named) == [pb.OBJECT_STATUS_PRESENT]
    assert await second.client.read(1, there.named) == data
    assert await sql(LEFT) == "0"


async def test_a_replica_that_was_taken_for_dead(replicas: tuple[Replica, Replica], sql: Sql) -> None:
    """A process that was stopped for longer than its lease adds nothing to what another has gone on with."""
    first, second = replicas
    data = os.urandom(3 * MEBIBYTE)
    here, there = PartialUpload(first.client, data), PartialUpload(second.client, data)
    await here.append(0, MEBIBYTE)
    call = await here.begin(MEBIBYTE)
    await call.send(data[MEBIBYTE : 2 * MEBIBYTE])
    await until_answer("1", lambda: sql("SELECT count(*) FROM storage.uploads"))
    assert first.process.process is not None
    first.process.process.send_signal(signal.SIGSTOP)
    async with asyncio.timeout(15):
        assert await there.offset() == MEBIBYTE
    taken = await there.begin(MEBIBYTE)
    await taken.send(data[MEBIBYTE : 2 * MEBIBYTE])
    await until_answer("1", lambda: sql(HELD))
    first.process.process.send_signal(signal.SIGCONT)
    await call.send(data[2 * MEBIBYTE :])
    with pytest.raises(grpc.aio.AioRpcError):
        await call.end()
    await taken.send(data[2 * MEBIBYTE :])
    assert (await taken.end()).offset == len(data)
    assert await second.client.read(1, there.named) == data
    assert await sql(LEFT) == "0"
