"""The stacks of the suite, and the people of its access examples."""

import itertools
from collections.abc import Callable, Iterator

import httpx
import pytest

from services.conformance.dialects import DIALECTS, Dialect
from tests.protocol.administration import Administration
from tests.protocol.client import Client, PublicAddress, new_http
from tests.support.stack import Stack, running_stack

NewRepository = Callable[..., Client]

# Settings that one test module needs and no other one notices.
SETTINGS = {
    "TOWPATH_FAILED_LOGINS": "100000/minute",
    "TOWPATH_FORGE_GRANTED_SECONDS": "3",
    "TOWPATH_FORGE_REFUSED_SECONDS": "0.5",
    "TOWPATH_FORGE_STALE_SECONDS": "0",
    "TOWPATH_LOCK_PAGE_DEFAULT": "1000",
}
PUBLIC_URL = "https://goods.example.org/lfs"
ALLOWANCE = 100_000
SMALL = {
    "TOWPATH_BATCH_OBJECTS": "10",
    "TOWPATH_BODY_BYTES": "4096",
    "TOWPATH_OBJECT_BYTES": "100000",
    "TOWPATH_ACTION_SECONDS": "60",
    "TOWPATH_LOCK_PAGE_DEFAULT": "2",
    "TOWPATH_LOCK_PAGE_MAX": "3",
    "TOWPATH_LOCK_PATH_BYTES": "100",
    "TOWPATH_LOCKS_PER_USER": "7",
    "TOWPATH_FAILED_LOGINS": "3/hour",
    "TOWPATH_REALM": "Goods of all kinds",
    "TOWPATH_DOCUMENTATION_URL": "https://goods.example.org/help",
    "TOWPATH_PUBLIC_URL": PUBLIC_URL,
    "TOWPATH_TRUSTED_PROXIES": "127.0.0.1",
    "TOWPATH_STORAGE_BANDWIDTH_LIMIT": str(ALLOWANCE),
    "TOWPATH_STORAGE_PARTIAL_UPLOAD_DAYS": "0",
}


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    """The stack of most tests. Many of them send wrong credentials, so it slows those late."""
    with running_stack("--demo", environment=SETTINGS) as stack:
        yield stack


@pytest.fixture(scope="package")
def small() -> Iterator[Stack]:
    """A stack with small limits, which has an address for the public."""
    with running_stack(environment=SMALL) as stack:
        yield stack


@pytest.fixture(scope="package")
def small_alice(small: Stack) -> Iterator[Client]:
    """Alice at the demo/assets of the stack with small limits, who reaches its public address too."""
    with new_http({PUBLIC_URL: PublicAddress(PUBLIC_URL, small.origin)}) as http:
        yield Client(http, small.base_url, f"Bearer {small.tokens['alice']}")


@pytest.fixture(scope="package")
def http() -> Iterator[httpx.Client]:
    """The connections of the suite."""
    with new_http() as http:
        yield http


@pytest.fixture(scope="package")
def operator(stack: Stack) -> Iterator[Administration]:
    """The operator of the stack."""
    with Administration(stack) as operator:
        yield operator


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.name)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    """Each dialect in turn."""
    chosen: Dialect = request.param
    return chosen


@pytest.fixture(scope="package")
def anonymous(stack: Stack, http: httpx.Client) -> Client:
    """A caller without credentials, at demo/assets."""
    return Client(http, stack.base_url)


@pytest.fixture(scope="package")
def alice(stack: Stack, anonymous: Client) -> Client:
    """Alice at demo/assets, who has full access."""
    return anonymous.showing(f"Bearer {stack.tokens['alice']}")


@pytest.fixture(scope="package")
def bob(stack: Stack, anonymous: Client) -> Client:
    """Bob at demo/assets, who may read it, and write on refs/heads/bob."""
    return anonymous.showing(f"Bearer {stack.tokens['bob']}")


@pytest.fixture(scope="package")
def carol(operator: Administration, anonymous: Client) -> Client:
    """Carol at demo/assets, who is known and has no access to it."""
    return anonymous.showing(f"Bearer {operator.add_user('carol')}")


@pytest.fixture(scope="package")
def new_repository(stack: Stack, operator: Administration, alice: Client) -> NewRepository:
    """Return a function that makes an empty repository, lets alice write it, and returns her client there."""
    numbers = itertools.count(1)

    def make(name: str = "", *, public: bool = False, admins_force: bool = False) -> Client:
        name = name or f"contract/r{next(numbers)}"
        operator.add_repository(name, public=public, admins_force=admins_force)
        operator.grant("alice", name, "write")
        return alice.at(f"{stack.origin}/{name}")

    return make


@pytest.fixture(scope="package")
def public(new_repository: NewRepository) -> Client:
    """Alice at a repository that anybody may read."""
    return new_repository("contract/public", public=True)
