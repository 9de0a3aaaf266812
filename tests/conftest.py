"""Fixtures that more than one folder of tests uses."""

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from tests.support.postgres import TestPostgres, running_postgres


@pytest.fixture(scope="session")
async def postgres() -> AsyncIterator[TestPostgres]:
    """A Postgres server, for the whole run."""
    async with running_postgres() as server:
        yield server


@pytest.fixture
async def database_url(postgres: TestPostgres) -> AsyncIterator[SecretStr]:
    """The URL of an empty database, for one test."""
    async with postgres.database() as url:
        yield url
