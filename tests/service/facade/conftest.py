"""One stack of real services for all tests of this folder; each test has a repository of its own."""

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.rpc.client import ServiceClient
from tests.service.facade.inner_failures import Running, Scripted, running_scripted
from tests.support.facade import RunningFacade, running_facade
from tests.support.http import MEDIA_TYPE, Action, Client, basic
from tests.support.issuer import Issuer, running_issuer
from tests.support.locks import RunningLocks, running_locks
from tests.support.postgres import TestPostgres
from tests.support.storage import RunningStorage, running_storage
from tests.support.tabs import Tab
from tests.support.waiting import STEP_SECONDS

_numbers = itertools.count()


@dataclass
class Inner:
    """The inner services, the memory that storage shares, and the tokens of alice and bob."""

    storage: RunningStorage
    memory: Path
    locks: RunningLocks
    tokens: dict[str, str]

    def running_facade(self, **settings: Any) -> AbstractAsyncContextManager[RunningFacade]:  # noqa: ANN401 - see there
        """Run a facade in front of them."""
        return running_facade(self.storage.address, self.locks.address, **settings)


@dataclass
class Place:
    """A private repository: alice writes, bob reads, and writes on refs/heads/bob; carol has no grant."""

    facade: RunningFacade
    inner: Inner
    name: str
    repository_id: int

    @property
    def base_url(self) -> str:
        """The base address."""
        return f"{self.facade.origin}/{self.name}"

    def client(self, user: str = "alice", *, ref: str | None = None) -> Client:
        """Return a client of a user."""
        return Client(self.base_url, user, self.inner.tokens[user], ref=ref)

    async def action(self, operation: str, data: bytes) -> Action:
        """Return the action by which alice uploads or downloads an object."""
        async with self.client() as alice:
            return await alice.offered(operation, data)

    async def held(self, data: bytes) -> Action:
        """Let storage hold an object, and return the action by which alice downloads it."""
        await self.inner.storage.write(self.repository_id, data)
        return await self.action("download", data)

    def asked(self, path: str, user: str = "alice") -> Action:
        """Return the address of a path below the base address, and the headers with which a user sends JSON to it."""
        shown = {"Authorization": basic(user, self.inner.tokens[user])}
        return Action(f"{self.base_url}/{path}", {**shown, "Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE})


@pytest.fixture(scope="package")
async def inner(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Inner]:
    """The inner services."""
    folder: Path = tmp_path_factory.mktemp("inner")
    memory = folder / "memory"
    memory.mkdir()
    database_url = await postgres.create_database()
    async with (
        running_storage(database_url, folder, shared_memory_path=memory) as storage,
        running_locks(database_url, folder, storage_address=storage.address) as locks,
    ):
        tokens = {}
        for user in ("alice", "bob", "carol"):
            await locks.add_user(user)
            tokens[user] = await locks.add_token(user)
        yield Inner(storage, memory, locks, tokens)


@pytest.fixture(scope="package")
async def facade(inner: Inner) -> AsyncIterator[RunningFacade]:
    """A facade in front of them."""
    async with inner.running_facade(shared_memory_path=inner.memory, failed_logins="1000000/hour") as running:
        yield running


@pytest.fixture(scope="package")
async def behind_proxy(inner: Inner) -> AsyncIterator[RunningFacade]:
    """A facade that trusts this host as its proxy."""
    async with inner.running_facade(trusted_proxies="127.0.0.0/8") as running:
        yield running


async def new_place(facade: RunningFacade, inner: Inner, *, public: bool = False) -> Place:
    """Make a repository."""
    name = f"studio/film-{next(_numbers)}"
    repository_id = await inner.locks.add_repository(name, public=public)
    await inner.locks.grant("alice", name, admin.ROLE_WRITE)
    await inner.locks.grant("bob", name, admin.ROLE_READ)
    await inner.locks.grant("bob", name, admin.ROLE_WRITE, ref_patterns=["refs/heads/bob"])
    return Place(facade, inner, name, repository_id)


@pytest.fixture
async def place(facade: RunningFacade, inner: Inner) -> Place:
    """A repository, for one test."""
    return await new_place(facade, inner)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer whose keys no service has read."""
    with running_issuer() as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """Connections, as many as a test opens."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS, limits=limits) as http:
        yield http


@pytest.fixture
async def tab(place: Place) -> AsyncIterator[Tab]:
    """A tab in which alice, who writes, has signed in."""
    async with Tab(place.facade.origin) as tab:
        await tab.sign_in(place.inner.tokens["alice"])
        yield tab


@pytest.fixture
async def stranger(facade: RunningFacade) -> AsyncIterator[Tab]:
    """A tab in which nobody has signed in."""
    async with Tab(facade.origin) as tab:
        yield tab


@pytest.fixture
async def scripted_peer(tmp_path: Path) -> AsyncIterator[tuple[Scripted, ServiceClient]]:
    """Services that do what the test says, and a client of them."""
    async with running_scripted(tmp_path) as (inner, address):
        peer = ServiceClient(address, deadline=STEP_SECONDS)
        yield inner, peer
        await peer.close()


@pytest.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[Running]:
    """Services that do what the test says, and a facade in front of them that does not wait long for them."""
    async with (
        running_scripted(tmp_path) as (inner, address),
        running_facade(address, address, rpc_seconds=2.5) as facade,
    ):
        yield inner, facade
