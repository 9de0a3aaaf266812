"""The services as processes, for the tests of this folder."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.postgres import TestPostgres
from tests.support.services import Services, running_services


@pytest.fixture(scope="package")
async def services(postgres: TestPostgres) -> AsyncIterator[Services]:
    """The three services, observed."""
    with tempfile.TemporaryDirectory(prefix="towpath-test-") as folder:
        # Limits that nobody reaches, so that their series exist.
        limits = dict.fromkeys(("storage_quota", "storage_bandwidth_limit"), 10**12)
        async with running_services(postgres, Path(folder), **limits) as services:
            yield services
