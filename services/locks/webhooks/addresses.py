"""URLs and addresses to which webhooks may be delivered: none inside of the network, unless a hook allows it.

A host is resolved once, and each of its addresses must be allowed. The request then goes to an address that was
checked, so that a name server that changes its answer has no second chance.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial

import httpx

_MAX_URL_CHARACTERS = 2_000
_MAX_PORT = 65_535
_URL = re.compile(r"https?://[!-~]+", re.ASCII)

# The special-purpose registries of IANA, and not `is_global`, which differs between versions of Python.
_SPECIAL_IPV4 = [
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
]
_GLOBAL_IPV6 = ipaddress.IPv6Network("2000::/3")
# Teredo is in the first, and 6to4 is the third: both carry an IPv4 address, and nobody serves HTTP at either.
_SPECIAL_IPV6 = [ipaddress.IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")]
# The name servers of networks without IPv4 embed it here (RFC 6052); the address inside is the one that is reached.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

_PRIVATE_IPV4 = [
    ipaddress.IPv4Network(network)
    for network in ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
]
_PRIVATE_IPV6 = [ipaddress.IPv6Network(network) for network in ("::1/128", "fc00::/7")]
# Clouds hand out credentials at these and configure machines; the others are link-local, which no hook can allow.
_OF_CLOUDS = [
    ipaddress.ip_network(network)
    for network in ("100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::/32", "fd20:ce::254/128")
]


class ReceiverError(ValueError):
    """A URL or an address to which nothing is delivered; the message says why."""


def is_allowed(address: str, *, allows_private: bool) -> bool:
    """Return whether a delivery may go to an IP address: to a global one, or with `allows_private` to a private one.

    Loopback addresses and those of carriers and of overlay networks count as private. Link-local, multicast and
    reserved addresses, those of a cloud's own agents, and IPv6 addresses that embed such an IPv4 address are never allowed.
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if any(ip in network for network in _OF_CLOUDS):
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        private = any(ip in network for network in _PRIVATE_IPV4)
        return (allows_private and private) or not any(ip in network for network in _SPECIAL_IPV4)
    if ip in _NAT64:
        return is_allowed(str(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)), allows_private=allows_private)
    if ip in _GLOBAL_IPV6:
        return not any(ip in network for network in _SPECIAL_IPV6)
    return allows_private and any(ip in network for network in _PRIVATE_IPV6)


def parse_receiver(url: str, *, allows_private: bool) -> httpx.URL:
    """Return the parsed URL of a receiver. Raises `ReceiverError` for one that no hook can have."""
    if len(url) > _MAX_URL_CHARACTERS or not _URL.fullmatch(url):
        raise ReceiverError(f"expected https://HOST/..., at most {_MAX_URL_CHARACTERS} characters of ASCII")
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise ReceiverError("expected an absolute URL with a host") from error
    if not parsed.host or parsed.userinfo or parsed.fragment or (parsed.port or 1) > _MAX_PORT:
        raise ReceiverError("expected an absolute URL with a host, and without credentials and a fragment")
    if parsed.scheme != "https" and not allows_private:
        raise ReceiverError("expected https; a hook that allows private addresses may use http")
    return parsed


async def resolve(receiver: httpx.URL, *, allows_private: bool, executor: Executor | None = None) -> Sequence[str]:
    """Return the addresses of a receiver. Raises `ReceiverError` if there are none, or if one of them is not allowed.

    The lookup runs in a thread of `executor`, and ends there even if the caller no longer waits.
    """
    look_up = partial(socket.getaddrinfo, receiver.host, receiver.port, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.get_running_loop().run_in_executor(executor, look_up)
    except (OSError, UnicodeError) as error:
        raise ReceiverError(f"the host {receiver.host} cannot be resolved") from error
    addresses = list(dict.fromkeys(str(place[0]) for *_, place in found))
    for address in addresses:
        if not is_allowed(address, allows_private=allows_private):
            private = not allows_private and is_allowed(address, allows_private=True)
            why = "private, and the hook does not allow private addresses" if private else "not one of the internet"
            raise ReceiverError(f"the address {address} of {receiver.host} is {why}")
    return addresses
