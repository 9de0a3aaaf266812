"""Fixtures of the end-to-end tests: one `towpath up --demo`, users at their computers, a git repository."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.support.git import Clone, Workspace, shared_repository
from tests.support.outside import ROOT, Distributions, Outside
from tests.support.seaweedfs import Prefix, SeaweedFS
from tests.support.stack import Stack, running_stack
from tests.support.transfer import Target
from tests.support.two_hosts import running_two_hosts


@pytest.fixture(scope="package", autouse=True)
def storage(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give every stack of these tests the place for its objects that the option --storage names."""
    option = request.config.getoption("--storage")
    if option == "disk":
        yield
        return
    server: SeaweedFS = request.getfixturevalue("seaweedfs")
    transfer = "direct" if option == "s3-direct" else "relay"

    def new_bucket() -> Prefix:
        return Prefix(server, f"e2e-{secrets.token_hex(4)}", transfer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.support.stack.new_bucket", new_bucket)
        yield


@pytest.fixture
def relayed(request: pytest.FixtureRequest) -> None:
    """Skip a test of how bytes pass through Towpath where they do not."""
    if request.config.getoption("--storage") == "s3-direct":
        pytest.skip("no bytes pass through Towpath with direct transfer")


@pytest.fixture(scope="package")
def running_site(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[Stack]]:
    """Return a function that runs a site on as many hosts as the option --hosts says."""
    if request.config.getoption("--hosts") == 1:
        # Two hosts have a proxy before them, which they trust.
        return partial(running_stack, "--demo", environment={"TOWPATH_TRUSTED_PROXIES": "127.0.0.1"})
    if request.config.getoption("--storage") == "disk":
        raise pytest.UsageError("--hosts 2 needs --storage s3 or s3-direct, as two hosts share no disk")
    return running_two_hosts


@pytest.fixture(scope="package")
def stack(running_site: Callable[[], AbstractContextManager[Stack]]) -> Iterator[Stack]:
    """A running `towpath up --demo` that trusts proxies on this host, for tests that neither stop it nor fill it."""
    with running_site() as running:
        yield running


@pytest.fixture
def computer(tmp_path: Path, stack: Stack) -> Callable[[str], Workspace]:
    """Make the computer of alice or bob, with their token in git's credential store."""

    def make(user: str) -> Workspace:
        return Workspace(tmp_path / user, user, stack.tokens[user], origin=stack.origin)

    return make


@pytest.fixture
def alice(computer: Callable[[str], Workspace]) -> Workspace:
    """Alice's computer."""
    return computer("alice")


@pytest.fixture
def bob(computer: Callable[[str], Workspace]) -> Workspace:
    """Bob's computer."""
    return computer("bob")


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """Return the path of the git repository that the users share."""
    return tmp_path / "remote.git"


@pytest.fixture
def alices(alice: Workspace, remote: Path, stack: Stack) -> Clone:
    """Alice's clone of the shared repository, which tracks `*.dat`."""
    return shared_repository(alice, remote, lfs_url=stack.base_url)


@pytest.fixture
def bobs(bob: Workspace, remote: Path, stack: Stack, alices: Clone) -> Clone:
    """Bob's clone of it, on a branch of the only name that he may write to."""
    assert alices.path.exists()
    clone = bob.clone(remote, lfs_url=stack.base_url)
    clone.git("checkout", "--quiet", "-b", "bob")
    return clone


@pytest.fixture
def target(stack: Stack) -> Target:
    """A new repository to import into, which alice may write."""
    name = f"studio/import-{secrets.token_hex(4)}"
    stack.towpath("repo", "add", name)
    stack.towpath("grant", "alice", name, "--role", "write")
    return Target(stack, name)


@pytest.fixture(scope="package")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The wheel and the sdist of this project."""
    return Distributions.build(tmp_path_factory.mktemp("distributions"))


@pytest.fixture(scope="package")
def wheel(distributions: Distributions) -> Path:
    """The wheel of this project."""
    return distributions.wheel


@pytest.fixture(scope="package")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Outside:
    """An environment with the wheel and nothing that it does not bring itself."""
    return Outside.make(tmp_path_factory.mktemp("outside") / "bare", str(wheel))


@pytest.fixture(scope="package")
def furnished(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Outside:
    """An environment with the wheel and what the examples ask for."""
    requirements = ROOT / "examples" / "python" / "requirements.txt"
    return Outside.make(
        tmp_path_factory.mktemp("outside") / "furnished", str(wheel), "--requirement", str(requirements)
    )
