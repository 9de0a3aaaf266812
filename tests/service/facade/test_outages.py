"""Restarts of storage that no client sees, because the facade waits out a short outage of an inner service."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from towpath.access.v1 import admin_service_pb2 as admin

from tests.support.facade import running_facade
from tests.support.http import Client, content, oid_of
from tests.support.locks import running_locks
from tests.support.postgres import TestPostgres
from tests.support.storage import running_storage
from tests.support.waiting import STEP_SECONDS


async def test_a_restart_of_storage_is_not_seen(postgres: TestPostgres, tmp_path: Path) -> None:
    """Batches and uploads wait for it, and a download goes on where it was."""
    database_url = await postgres.create_database()
    data, more = content("restart", 24 * 1024**2), content("restarted", 1_000)
    address = f"unix:{tmp_path / 'storage.sock'}"
    async with running_locks(database_url, tmp_path, storage_address=address) as locks:
        await locks.add_user("alice")
        token = await locks.add_token("alice")
        repository_id = await locks.add_repository("demo/assets")
        await locks.grant("alice", "demo/assets", admin.ROLE_WRITE)
        async with (
            running_facade(address, locks.address) as facade,
            Client(f"{facade.origin}/demo/assets", "alice", token) as alice,
        ):
            async with running_storage(database_url, tmp_path) as storage:
                oid = await storage.write(repository_id, data)
                action, upload = await alice.offered("download", data), await alice.offered("upload", more)
                download = alice.http.stream("GET", action.href, headers=action.header)
                response = await download.__aenter__()
                parts = response.aiter_raw()
                received = [await anext(parts)]
            # Storage is gone; the rest of the download, a batch and an upload wait for it.
            rest = asyncio.create_task(_all(parts))
            batch = asyncio.create_task(alice.batch("download", (oid, len(data))))
            put = asyncio.create_task(alice.put(upload, more, len(more)))
            # The length of the outage.
            await asyncio.sleep(0.3)
            assert [task.done() for task in (rest, batch, put)] == [False] * 3
            async with running_storage(database_url, tmp_path):
                received.append(await asyncio.wait_for(rest, STEP_SECONDS))
                assert (await asyncio.wait_for(batch, STEP_SECONDS)).status_code == 200
                assert (await asyncio.wait_for(put, STEP_SECONDS)).status_code == 200
                await download.__aexit__(None, None, None)
    assert oid_of(b"".join(received)) == oid


async def _all(parts: AsyncIterator[bytes]) -> bytes:
    return b"".join([part async for part in parts])
