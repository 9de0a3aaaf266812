"""Addresses at which clients connect."""

import pytest

from services.cli.errors import CommandError
from services.cli.up.listener import listen
from services.common.addresses import Address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("localhost:0", "localhost", 0),
        ("[::1]:8080", "::1", 8080),
        ("0.0.0.0:65535", "0.0.0.0", 65535),  # noqa: S104 - only parsed
    ],
)
def test_address(text: str, host: str, port: int) -> None:
    """HOST:PORT is read, with an IPv6 host in brackets, and written so again."""
    address = Address.parse(text)
    assert (address.host, address.port, str(address)) == (host, port, text)


@pytest.mark.parametrize(
    "text", ["", "8080", ":8080", "host", "host:", "host:x", "host:65536", "::1:80", "host:٣", "h:-1"]
)
def test_malformed_address(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        Address.parse(text)


@pytest.mark.parametrize(
    ("host", "reachable"),
    [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("::1", "::1"), ("localhost", "localhost")],  # noqa: S104 - only parsed
)
def test_reachable(host: str, reachable: str) -> None:
    """Every address of this host is reached through its loopback."""
    assert Address(host, 80).reachable == Address(reachable, 80)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_free_port(host: str) -> None:
    """Port 0 becomes a real one."""
    listener, address = listen(Address(host, 0))
    with listener:
        assert address.port == listener.getsockname()[1] > 0


def test_port_in_use() -> None:
    """A port that is taken is told with the address."""
    listener, address = listen(Address("127.0.0.1", 0))
    with listener, pytest.raises(CommandError, match=rf"cannot listen on 127\.0\.0\.1:{address.port}: address already"):
        listen(address)


def test_foreign_host() -> None:
    """An address that is not of this machine is told."""
    with pytest.raises(CommandError, match=r"cannot listen on 192\.0\.2\.1:8080"):
        listen(Address("192.0.2.1", 8080))
