"""A running lock service for each file of tests, and a repository with its people for each test."""

import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.locks.locking.retention import delete_expired
from tests.support.issuer import Issuer, running_issuer
from tests.support.locks import RunningLocks, running_locks
from tests.support.postgres import TestPostgres
from tests.support.storage import RunningStorage, running_storage
from tests.support.waiting import until

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
    await service.execute(
        "INSERT INTO locks (repository_id, path, path_hash, owner_id, locked_at, idempotency_key)"
        " SELECT :repository_id, path, sha256(path::bytea), :owner_id, date_trunc('second', now()), ''"
        " FROM (SELECT 'many/' || n AS path FROM generate_series(1, :count) AS n) AS paths",
        repository_id=team.repository_id,
        owner_id=team.alice,
        count=count,
    )
    await service.execute("ANALYZE locks")


async def delete_old(service: RunningLocks, **bounds: int) -> None:
    """Delete all that the service keeps for a time and whose time is over, with `bounds` of `delete_expired`."""
    async with service.open_database() as database:
        await until(partial(delete_expired, database, **bounds))


async def explain(
    service: RunningLocks,
    user_name: str,
    repository: str,
    *,
    ref: str = "",
    permission: "access.Permission.ValueType" = access.PERMISSION_WRITE,
) -> admin.ExplainAccessResponse:
    """Ask as an administrator why a user may do something, or may not."""
    request = admin.ExplainAccessRequest(user_name=user_name, repository=repository, ref=ref, permission=permission)
    return await service.admin_peer.call(service.admin.ExplainAccess, request)


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


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer of its own for each test."""
    with running_issuer() as running:
        yield running


@dataclass(frozen=True)
class Both:
    """A lock service, the storage service that it calls, and the folder of both."""

    locks: RunningLocks
    storage: RunningStorage
    folder: Path

    async def add_repository(self) -> tuple[str, int]:
        """Make a repository that no other test has, and return its name and its id."""
        name = f"both/{next(_numbers)}"
        return name, await self.locks.add_repository(name)


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
