"""Fixtures of the tests of backups."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.support.backup import Installation, Place, running_installation
from tests.support.postgres import TestPostgres
from tests.support.two_stores import TwoStores, two_stores


@pytest.fixture
async def installation(database_url: SecretStr, tmp_path: Path) -> AsyncIterator[Installation]:
    """Storage and locks that run, with nothing in them but an administrator."""
    async with running_installation(Place(database_url, tmp_path / "old")) as running:
        yield running


@pytest.fixture
async def stores(database_url: SecretStr, tmp_path: Path) -> AsyncIterator[TwoStores]:
    """Two stores with nothing in them, and no services."""
    async with two_stores(Place(database_url, tmp_path / "old")) as made:
        yield made


@pytest.fixture
async def empty_place(postgres: TestPostgres, tmp_path: Path) -> AsyncIterator[Place]:
    """An empty database and no bytes."""
    async with postgres.database(empty=True) as url:
        folder = tmp_path / "new"
        folder.mkdir()
        yield Place(url, folder)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return the folder of the backup."""
    return tmp_path / "backup"
