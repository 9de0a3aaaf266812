"""Addresses and URLs to which webhooks may be delivered."""

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.outbound import is_allowed
from services.locks.webhooks.addresses import ReceiverError, parse_receiver, resolve

_GLOBAL = ["93.184.215.14", "8.8.8.8", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e"]
# Loopback, the private networks, and those of carriers and overlays.
_PRIVATE = [
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "127.0.0.1",
    "127.255.255.254",
    "100.64.0.1",
    "100.127.255.255",
    "::1",
    "fc00::1",
    "fd12:3456:789a::1",
]
# Metadata of clouds, link-local, multicast, reserved and unspecified addresses, and what is none.
_NEVER = [
    "169.254.169.254",
    "169.254.0.1",
    "100.100.100.200",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "168.63.129.16",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%2",
    "fec0::1",
    "0.0.0.0",  # noqa: S104 - nothing binds to it
    "0.1.2.3",
    "::",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "ff02::1",
    "ff0e::1",
    "100::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "4000::1",
    "nonsense",
]
_INNER = ["127.0.0.1", "10.0.0.1", "169.254.169.254", "8.8.8.8"]


def _embedded(inner: str) -> list[str]:
    """Return the IPv6 addresses that embed an IPv4 address: mapped, compatible, translated, 6to4, Teredo, NAT64."""
    number = int(ipaddress.IPv4Address(inner))
    return [
        str(ipaddress.IPv6Address(value))
        for value in (
            int(ipaddress.IPv6Address("::ffff:0:0")) | number,
            number,
            int(ipaddress.IPv6Address("::ffff:0:0:0")) | number,
            int(ipaddress.IPv6Address("2002::")) | number << 80,
            int(ipaddress.IPv6Address("2001::")) | number << 64 | number ^ 0xFFFFFFFF,
            int(ipaddress.IPv6Address("64:ff9b:1::")) | number,
        )
    ]


def _nat64(inner: str) -> str:
    return str(ipaddress.IPv6Address(int(ipaddress.IPv6Address("64:ff9b::")) | int(ipaddress.IPv4Address(inner))))


@pytest.mark.parametrize(
    ("address", "public", "private"),
    [
        *((address, True, True) for address in _GLOBAL),
        *((address, False, True) for address in _PRIVATE),
        *((address, False, False) for address in _NEVER),
        # Whichever address is inside: no receiver is reached in these ways.
        *((address, False, False) for inner in _INNER for address in _embedded(inner)),
        # In a network without IPv4, its name server gives all receivers addresses of NAT64.
        *((_nat64(inner), False, True) for inner in ("10.0.0.1", "127.0.0.1")),
        (_nat64("8.8.8.8"), True, True),
        (_nat64("169.254.169.254"), False, False),
    ],
)
def test_the_address_decides(address: str, *, public: bool, private: bool) -> None:
    """Receivers are on the internet; private addresses are for hooks that allow them, and all others for none."""
    assert is_allowed(address, allows_private=False) is public
    assert is_allowed(address, allows_private=True) is private


@given(st.ip_addresses())
def test_nothing_is_allowed_that_python_calls_private(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """The registry that Python knows agrees."""
    if is_allowed(str(address), allows_private=False) and address not in ipaddress.ip_network("64:ff9b::/96"):
        assert address.is_global
        assert not address.is_multicast


@pytest.mark.parametrize("host", ["127.1", "0x7f.0.0.1", "2130706433", "0", "[::ffff:127.0.0.1]", "localhost"])
async def test_other_spellings_are_resolved_first(host: str) -> None:
    """The address decides, and not the text."""
    with pytest.raises(ReceiverError, match="address"):
        await resolve(parse_receiver(f"https://{host}/", allows_private=False), allows_private=False)


async def test_a_name_with_one_forbidden_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each address of a name must be allowed, because the delivery may go to any of them."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in ("8.8.8.8", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(ReceiverError, match=r"10\.0\.0\.1 of example\.org is private"):
        await resolve(parse_receiver("https://example.org/", allows_private=False), allows_private=False)


async def test_the_addresses_of_a_receiver() -> None:
    """They are what the name is resolved to."""
    for host, addresses in (("93.184.215.14", ["93.184.215.14"]), ("[2606:4700::1]", ["2606:4700::1"])):
        receiver = parse_receiver(f"https://{host}:8443/hook?a=b", allows_private=False)
        assert await resolve(receiver, allows_private=False) == addresses
