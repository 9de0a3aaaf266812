"""Fixtures that more than one folder of tests uses."""

import os
import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import compress
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from pydantic import SecretStr
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from services.storage.backends.object_store.backend import ObjectStoreBackend
from tests.support import programs
from tests.support.azurite import Azurite, running_azurite
from tests.support.browser import Browser, running_browser
from tests.support.oidc_provider import OidcProvider, running_provider
from tests.support.postgres import TestPostgres, running_postgres
from tests.support.prepared import prepared_folders
from tests.support.seaweedfs import SeaweedFS, running_seaweedfs
from tests.support.sources import ROOT

_LONGEST_FIRST = ("stack", "e2e", "protocol", "service", "unit")
_OWN_STACK = re.compile(r"\b(?:running_stack|running|place)\(")

# What a machine under load needs for an example says nothing of the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    """Let the tests, and what they start, find the programs that `make programs` put beside Python."""
    os.environ["PATH"] = programs.PATH
    owned = ExitStack()
    owned.enter_context(prepared_folders())
    config.add_cleanup(owned.close)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that say where stacks keep their objects, which way these go, and what else tests need."""
    choices = ["disk", "s3", "s3-direct"]
    parser.addoption("--storage", choices=choices, default="disk", help="where tests/e2e and tests/stack keep objects")
    parser.addoption(
        "--previous", metavar="COMMIT", help="what tests/stack/test_upgrade.py upgrades from, if not the commit before"
    )
    parser.addoption(
        "--hosts", type=int, choices=[1, 2], default=1, help="hosts of test_crashes and test_races; 2 need a bucket"
    )
    parser.addoption(
        "--part", metavar="K/N", help="run the Kth of N parts, the same tests each time; K may be any number"
    )
    parser.addoption(
        "--whole-catalog", action="store_true", help="let test_conformance_defects.py run every case with each defect"
    )


class _ByStack(LoadFileScheduling):  # type: ignore[misc] # pytest-xdist has no types
    """Keeps the tests of a file on one worker, and those of a folder that use the stack of the session."""

    def _split_scope(self, nodeid: str) -> str:
        return _group(nodeid.partition("::")[0])


@cache
def _group(file: str) -> str:
    folder = Path(file).parent.name
    shares = folder in {"e2e", "protocol"} and not _OWN_STACK.search((ROOT / file).read_text())
    return f"tests/{folder}" if shares else file


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist there is no such hook
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Give tests that share what is started to one worker."""
    return _ByStack(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no worker has a long file left at the end; choose the drills of a part."""
    groups = {item: _group(item.nodeid.partition("::")[0]) for item in items}
    sizes = Counter(groups.values())

    def rank(item: pytest.Item) -> tuple[int, int, str]:
        group = groups[item]
        return _LONGEST_FIRST.index(group.split("/")[1]), -sizes[group], group

    items.sort(key=rank)
    if (part := config.getoption("--part")) is not None:
        if not re.fullmatch(r"\d+/[1-9]\d*", part):
            raise pytest.UsageError(f"--part {part}: expected K/N, such as 1/3")
        number, count = map(int, part.split("/"))
        chosen = [crc32(item.nodeid.encode()) % count == number % count for item in items]
        config.hook.pytest_deselected(
            items=[item for item, is_chosen in zip(items, chosen, strict=True) if not is_chosen]
        )
        items[:] = compress(items, chosen)


BackendFactory: TypeAlias = Callable[[str], Awaitable[ObjectStoreBackend]]


@pytest.fixture(scope="session")
async def postgres() -> AsyncIterator[TestPostgres]:
    """A Postgres server, for the whole run."""
    async with running_postgres() as server:
        yield server


@pytest.fixture
async def database_url(request: pytest.FixtureRequest, postgres: TestPostgres) -> AsyncIterator[SecretStr]:
    """The URL of a database for one test: with the tables of all services, or empty by the marker of that name."""
    async with postgres.database(empty=request.node.get_closest_marker("empty_database") is not None) as url:
        yield url


@contextmanager
def _variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables; and a proxy that this host uses is not asked for what is on this host."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**variables, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
async def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SeaweedFS]:
    """An S3 server with a bucket `objects`, for the whole run; the environment has its credentials."""
    async with running_seaweedfs(tmp_path_factory.mktemp("seaweedfs"), volumes=400) as server:
        with _variables(server.environment):
            yield server


@pytest.fixture(scope="session")
async def azurite(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Azurite]:
    """A server for Azure's blobs with a container `objects`, for the whole run; the environment has its key."""
    async with running_azurite(tmp_path_factory.mktemp("azurite")) as server:
        with _variables(server.environment):
            yield server


@pytest.fixture
def seaweedfs_backend(seaweedfs: SeaweedFS) -> BackendFactory:
    """A function that opens backends on the S3 server, each below a new prefix that begins with the given name."""
    return lambda name: seaweedfs.backend(f"{name}-{secrets.token_hex(4)}")


@pytest.fixture
def azurite_backend(azurite: Azurite) -> BackendFactory:
    """A function that opens backends on the server for Azure's blobs, each below a prefix that is new."""
    return lambda name: azurite.backend(f"{name}-{secrets.token_hex(4)}")


@pytest.fixture(scope="module")
async def provider(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OidcProvider]:
    """A real provider of OpenID Connect, for a file of tests."""
    async with running_provider(tmp_path_factory.mktemp("provider")) as running:
        yield running


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    """A browser in which nobody has signed in."""
    async with running_browser(tmp_path) as running:
        yield running
