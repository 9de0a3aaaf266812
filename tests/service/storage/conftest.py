"""Fixtures of the storage service's tests."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection

from services.database.engine import create_engine
from services.database.transactions import Database
from services.storage.index.schema import SCHEMA
from tests.support.postgres import TestPostgres
from tests.support.storage import RunningStorage, StorageClient, StorageProcess, running_storage

Sql = Callable[[str], Awaitable[str]]

_repositories = itertools.count(1000)


@pytest.fixture
async def own_storage(database_url: SecretStr, tmp_path: Path) -> AsyncIterator[RunningStorage]:
    """A storage service on a disk, empty."""
    async with running_storage(database_url, tmp_path) as running:
        yield running


@pytest.fixture
def storage(request: pytest.FixtureRequest) -> RunningStorage:
    """A storage service on a disk: an empty one, or by the marker of that name the one that the file shares."""
    name = "shared" if _is_shared(request) else "own_storage"
    found: RunningStorage = request.getfixturevalue(name)
    return found


def _is_shared(request: pytest.FixtureRequest) -> bool:
    return request.node.get_closest_marker("shared_storage") is not None


@pytest.fixture(scope="module")
async def shared_database_url(postgres: TestPostgres) -> SecretStr:
    """The URL of the database of `shared`."""
    return await postgres.create_database()


@pytest.fixture(scope="module")
async def shared(
    shared_database_url: SecretStr, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RunningStorage]:
    """A storage service on a disk for a file of tests, which count only what is in repositories of their own."""
    async with running_storage(shared_database_url, tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture
def repository_id() -> int:
    """A repository that no other test has."""
    return next(_repositories)


@pytest.fixture
def sql(request: pytest.FixtureRequest, postgres: TestPostgres) -> Sql:
    """Return a function that runs a statement in the database of `storage`, and returns the output of psql."""
    url: SecretStr = request.getfixturevalue("shared_database_url" if _is_shared(request) else "database_url")
    return partial(postgres.execute_at, url)


@pytest.fixture
async def database(database_url: SecretStr) -> AsyncIterator[Database]:
    """The database of a storage service, without a service around it."""
    made = Database(create_engine(database_url, schema=SCHEMA.name, pool_size=10))
    yield made
    await made.close()


@asynccontextmanager
async def connected(database_url: SecretStr) -> AsyncIterator[AsyncConnection]:
    """Connect to the database of a storage service; what is not committed at the end is rolled back."""
    engine = create_engine(database_url, schema=SCHEMA.name, pool_size=1)
    try:
        async with engine.connect() as connection:
            yield connection
    finally:
        await engine.dispose()


@pytest.fixture
async def process(database_url: SecretStr, tmp_path: Path) -> AsyncIterator[StorageProcess]:
    """A storage service as a process of its own, migrated and not started."""
    made = StorageProcess(database_url, tmp_path)
    yield made
    if made.process is not None:
        await made.stop()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[StorageClient]:
    """A client of `process`."""
    made = StorageClient(tmp_path)
    yield made
    await made.channel.close()
