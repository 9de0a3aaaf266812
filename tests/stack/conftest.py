"""The one stack that all tests of this folder use, its users, and clients that work on it."""

import os
import socket
from collections.abc import Iterator

import pytest

from tests.stack.compose import ComposeStack
from tests.stack.work import add_crew
from tests.support.certificates import CertificateFiles, write_certificate

BUCKET_URL = "s3://objects?endpoint=http://seaweedfs-filer:8333"
_PORTS = 4


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    """Return the certificate of the proxy, and the authority that the clients trust."""
    files = write_certificate(tmp_path_factory.mktemp("tls"))
    # The proxy's user reads it.
    files.key.chmod(0o644)
    return files


@pytest.fixture(scope="session")
def stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: CertificateFiles
) -> Iterator[ComposeStack]:
    """The stack as `make stack` makes it where there is none, and the proxy beside it.

    With `--storage s3` it keeps objects in its own store for them.
    """
    in_bucket = request.config.getoption("--storage") == "s3"
    folder = tmp_path_factory.mktemp("stack")
    running = ComposeStack(
        f"towpath-test-{os.getpid()}",
        folder,
        {
            **behind_proxy(certificates),
            **({"TOWPATH_STORAGE_URL": BUCKET_URL, "COMPOSE_PROFILES": "s3"} if in_bucket else {}),
        },
    )
    try:
        running.make("stack")
        running.profiles = ("proxy", "s3") if in_bucket else ("proxy",)
        running.up()
        yield running
    finally:
        if os.environ.get("TOWPATH_KEEP_STACK") != "1":
            running.compose("down", "--volumes", "--timeout=10", check=False)


def behind_proxy(certificates: CertificateFiles) -> dict[str, str]:
    """Return the settings of a stack with several facades and a proxy: their ports, and what the proxy shows."""
    first = free_ports(_PORTS + 1)
    return {
        "TOWPATH_PUBLISH": f"127.0.0.1:{first}-{first + _PORTS - 1}",
        "TOWPATH_PROXY_PUBLISH": f"127.0.0.1:{first + _PORTS}",
        "TOWPATH_PROXY_CERTIFICATE": str(certificates.chain),
        "TOWPATH_PROXY_KEY": str(certificates.key),
    }


def free_ports(count: int) -> int:
    """Return the first of so many ports in a row that nobody listens on."""
    for first in range(18080, 28080, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


@pytest.fixture
def single(stack: ComposeStack) -> ComposeStack:
    """The stack with one of each service."""
    return scaled(stack, facade=1, storage=1, locks=1)


@pytest.fixture
def two_facades(stack: ComposeStack) -> ComposeStack:
    """The stack with two facades behind the proxy, and one each of what they call."""
    return scaled(stack, facade=2, storage=1, locks=1)


@pytest.fixture
def doubled(stack: ComposeStack) -> ComposeStack:
    """The stack with two of each service."""
    return scaled(stack, facade=2, storage=2, locks=2)


def scaled(stack: ComposeStack, **scale: int) -> ComposeStack:
    """Return the stack when so many of each service are healthy."""
    if stack.scale != scale:
        stack.scale = scale
        stack.up()
    return stack


@pytest.fixture(scope="session")
def origin(stack: ComposeStack) -> str:
    """Return the origin at which clients reach the proxy."""
    return f"https://{stack.address('proxy', 8443)}"


@pytest.fixture(scope="session")
def tokens(stack: ComposeStack) -> dict[str, str]:
    """The tokens of everybody who works in the repository, which is made for them."""
    return add_crew(stack)
