"""One `towpath up --demo` for the suite, and the people of its access examples."""

import itertools
from collections.abc import Callable, Iterator

import httpx
import pytest

from services.conformance.dialects import DIALECTS, Dialect
from tests.protocol.administration import Administration
from tests.protocol.client import Client, new_http
from tests.support.stack import Stack, running_stack

NewRepository = Callable[..., Client]


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """The stack of the suite. Wrong credentials are part of many tests, so that they are slowed late."""
    with running_stack(environment={"TOWPATH_FAILED_LOGINS": "100000/minute"}) as stack:
        yield stack


@pytest.fixture(scope="session")
def http() -> Iterator[httpx.Client]:
    """The connections of the suite."""
    with new_http() as http:
        yield http


@pytest.fixture(scope="session")
def operator(stack: Stack) -> Iterator[Administration]:
    """The operator of the stack."""
    with Administration(stack) as operator:
        yield operator


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.name)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    """Each dialect in turn."""
    chosen: Dialect = request.param
    return chosen


@pytest.fixture(scope="session")
def anonymous(stack: Stack, http: httpx.Client) -> Client:
    """Nobody, at demo/assets."""
    return Client(http, stack.base_url)


@pytest.fixture(scope="session")
def alice(stack: Stack, anonymous: Client) -> Client:
    """Alice at demo/assets, who has full access."""
    return anonymous.showing(f"Bearer {stack.tokens['alice']}")


@pytest.fixture(scope="session")
def bob(stack: Stack, anonymous: Client) -> Client:
    """Bob at demo/assets, who may read it, and write on refs/heads/bob."""
    return anonymous.showing(f"Bearer {stack.tokens['bob']}")


@pytest.fixture(scope="session")
def carol(operator: Administration, anonymous: Client) -> Client:
    """Carol at demo/assets, who is known and has no access to it."""
    return anonymous.showing(f"Bearer {operator.add_user('carol')}")


@pytest.fixture(scope="session")
def new_repository(stack: Stack, operator: Administration, alice: Client) -> NewRepository:
    """Return a function that makes an empty repository, lets alice write it, and returns her client there."""
    numbers = itertools.count(1)

    def make(name: str = "", *, public: bool = False, admins_force: bool = False) -> Client:
        name = name or f"contract/r{next(numbers)}"
        operator.add_repository(name, public=public, admins_force=admins_force)
        operator.grant("alice", name, "write")
        return alice.at(f"{stack.origin}/{name}")

    return make


@pytest.fixture(scope="session")
def public(new_repository: NewRepository) -> Client:
    """Alice at a repository that anybody may read."""
    return new_repository("contract/public", public=True)
