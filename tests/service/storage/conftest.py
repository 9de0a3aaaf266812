"""Fixtures of the storage service's tests."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy.engine import make_url

from tests.support.postgres import TestPostgres
from tests.support.storage import RunningStorage, StorageClient, StorageProcess, running_storage

Sql = Callable[[str], Awaitable[str]]


@pytest.fixture
async def storage(database_url: SecretStr, tmp_path: Path) -> AsyncIterator[RunningStorage]:
    """A storage service on a disk, empty."""
    async with running_storage(database_url, tmp_path) as running:
        yield running


@pytest.fixture
def sql(postgres: TestPostgres, database_url: SecretStr) -> Sql:
    """Return a function that runs a statement in the test's database, and returns the output of psql."""
    database = make_url(database_url.get_secret_value()).database
    assert database is not None
    return partial(postgres.execute, database=database)


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
