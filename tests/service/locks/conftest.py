"""A running lock service for each file of tests, and a repository with its people for each test."""

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from towpath.access.v1 import admin_service_pb2 as admin

from services.database.engine import create_engine
from tests.support.locks import RunningLocks, running_locks
from tests.support.postgres import TestPostgres
from tests.support.storage import RunningStorage, running_storage

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Team:
    """A private repository where alice and bob may write, and their ids."""

    repository: str
    repository_id: int
    alice_name: str
    alice: int
    bob_name: str
    bob: int


async def fill(service: RunningLocks, team: Team, count: int) -> None:
    """Put locks of alice into the table, past the service, which would take its time."""
    engine = create_engine(service.database_url, schema="locks", pool_size=1)
    statement = text(
        "INSERT INTO locks (repository_id, path, path_hash, owner_id, locked_at, idempotency_key)"
        " SELECT :repository_id, path, sha256(path::bytea), :owner_id, date_trunc('second', now()), ''"
        " FROM (SELECT 'many/' || n AS path FROM generate_series(1, :count) AS n) AS paths"
    )
    async with engine.begin() as connection:
        await connection.execute(
            statement, {"repository_id": team.repository_id, "owner_id": team.alice, "count": count}
        )
    async with engine.begin() as connection:
        await connection.execute(text("ANALYZE locks"))
    await engine.dispose()


@pytest.fixture(scope="module")
async def service(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningLocks]:
    """A lock service on a database of its own."""
    async with running_locks(await postgres.create_database(), tmp_path_factory.mktemp("locks")) as running:
        yield running


@pytest.fixture
async def team(service: RunningLocks) -> Team:
    """A repository and two users that no other test has."""
    return await new_team(service)


async def new_team(service: RunningLocks) -> Team:
    """Make a repository and two users."""
    number = next(_numbers)
    repository = f"studio/film-{number}"
    alice, bob = f"alice-{number}", f"bob-{number}"
    team = Team(
        repository=repository,
        repository_id=await service.add_repository(repository),
        alice_name=alice,
        alice=await service.add_user(alice),
        bob_name=bob,
        bob=await service.add_user(bob),
    )
    for name in (alice, bob):
        await service.grant(name, repository, admin.ROLE_WRITE)
    return team


@dataclass(frozen=True)
class Both:
    """A lock service, the storage service that it calls, and the folder of both."""

    locks: RunningLocks
    storage: RunningStorage
    folder: Path


@asynccontextmanager
async def running_both(
    postgres: TestPostgres, folder: Path, *, limits: Mapping[str, Any] | None = None
) -> AsyncIterator[Both]:
    """Run both services, each on a database of its own; `limits` are settings of the lock service."""
    async with (
        running_storage(await postgres.create_database(), folder) as storage,
        running_locks(
            await postgres.create_database(), folder, storage_address=storage.address, limits=limits
        ) as locks,
    ):
        yield Both(locks, storage, folder)


@pytest.fixture(scope="module")
async def both(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Both]:
    """Both services, for a file of tests."""
    async with running_both(postgres, tmp_path_factory.mktemp("both")) as running:
        yield running
