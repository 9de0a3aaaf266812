"""Locks that a backup holds in Postgres."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from services.backup import backup_locks as module
from services.backup.backup_locks import hold
from services.backup.errors import BackupError
from services.database.migrations import create_operator_engine, migrate
from services.storage.index import objects
from services.storage.index.schema import SCHEMA


@pytest.fixture
async def engine(database_url: SecretStr) -> AsyncIterator[AsyncEngine]:
    """An engine on an empty database."""
    made = create_operator_engine(database_url, "test")
    yield made
    await made.dispose()


async def _may_delete(engine: AsyncEngine) -> bool:
    async with engine.begin() as connection:
        return await objects.may_delete(connection)


async def test_deletions_are_held_back_until_the_end(engine: AsyncEngine, database_url: SecretStr) -> None:
    """While it lasts nobody may delete bytes; migrations wait for the tables alone."""
    async with hold(engine) as held:
        assert not await _may_delete(engine)
        await held.let_migrate()
        await migrate(database_url, SCHEMA)
        assert not await _may_delete(engine)
    assert await _may_delete(engine)


async def test_a_lost_connection_ends_the_work(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once deletions are no longer held back, what is being copied may be incomplete: the backup ends, and says why."""
    monkeypatch.setattr(module, "_PING_SECONDS", 0.1)
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with hold(engine) as held:
        working = asyncio.create_task(held.during(work()))
        async with engine.begin() as connection:
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            await connection.execute(text(f"{others} AND datname = current_database()"))
        with pytest.raises(BackupError, match="the connection to Postgres was lost"):
            await working
    assert ended.is_set()
    assert await _may_delete(engine)


async def test_a_second_backup_waits_its_turn(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once are refused after a while: which of them held what could not be told."""
    monkeypatch.setattr(module, "_WAIT_SECONDS", 1)
    async with hold(engine):
        with pytest.raises(BackupError, match="another backup or a migration has not ended"):
            async with hold(engine):
                pass
