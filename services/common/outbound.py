"""Bounds of our own requests: the URLs and addresses to which others may lead us, and the bodies that we read."""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

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
# Clouds hand out credentials at these and configure machines; the others are link-local, which nothing allows.
_OF_CLOUDS = [
    ipaddress.ip_network(network)
    for network in ("100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::/32", "fd20:ce::254/128")
]

_LOOKUP_SECONDS = 10.0
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def parse_url(text: str, base: httpx.URL | None = None) -> httpx.URL:
    """Return a URL whose host can be read; `base` is that of the page that names it.

    Raises `httpx.InvalidURL` for whatever `httpx` or `urlsplit` cannot parse.
    """
    try:
        urlsplit(text)
        url = httpx.URL(text) if base is None else base.join(text)
        # It is decoded when it is read, which fails for "xn--".
        _ = url.host
    except ValueError as error:
        raise httpx.InvalidURL(f"expected a URL: {error}") from error
    return url


async def check_location(response: httpx.Response) -> None:
    """Raise `httpx.InvalidURL` for a redirect to what is no URL: a hook for responses.

    `httpx` parses the target even where it follows no redirects, and raises other errors then.
    """
    if response.is_redirect:
        parse_url(response.headers.get("location", ""), response.url)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds of a Retry-After header, which has a number or a date; None for no such header."""
    if value is None:
        return None
    if value.isascii() and value.strip().isdigit():
        return float(value.strip()[:9])
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(0.0, ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds())


def are_headers(value: object) -> bool:
    """Return whether a value is a dictionary of headers, with names and printable values as HTTP has them."""
    return isinstance(value, dict) and all(
        isinstance(text, str)
        and _HEADER_NAME.fullmatch(name)
        and text.isascii()
        and text.isprintable()
        and text == text.strip()
        for name, text in value.items()
    )


def is_allowed(address: str, *, allows_private: bool) -> bool:
    """Return whether a request may go to an IP address: to a global one, or with `allows_private` to a private one.

    Loopback addresses and those of carriers and of overlay networks count as private. Link-local, multicast and
    reserved addresses, those of a cloud's own agents, and IPv6 addresses that embed such an IPv4 address never are.
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


class LedAstrayError(ValueError):
    """A server leads to an address to which it may not lead."""


class Destinations:
    """The addresses to which a server may lead us, by actions, redirects and its own name: private ones, if it has one.

    `server` is its host, which is looked up once: a name that becomes that of a machine of this network later opens no
    way to it.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._is_private: bool | None = None

    def check(self, host: str) -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
        """Return what looks at each new connection to a host, before anything is sent by it: a `trace` of httpcore.

        It raises `LedAstrayError` for a connection to a wrong address, which it closes.
        """

        async def look(event: str, info: Mapping[str, Any]) -> None:
            if event != "connection.connect_tcp.complete":
                return
            stream = info["return_value"]
            address = stream.get_extra_info("server_addr")[0]
            if not is_allowed(address, allows_private=await self._allows_private()):
                await stream.aclose()
                raise LedAstrayError(f"the server leads to {host}, at the address {address}, where it may not lead")

        return look

    async def _allows_private(self) -> bool:
        if self._is_private is None:
            try:
                async with asyncio.timeout(_LOOKUP_SECONDS):
                    found = await asyncio.get_running_loop().getaddrinfo(self._server, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                return False
            self._is_private = not all(is_allowed(str(address[0]), allows_private=False) for *_, address in found)
        return self._is_private


class CodingError(ValueError):
    """A body has a coding, of which a few bytes may become any number, although every request asks for identity."""


def require_identity(headers: Mapping[str, str]) -> None:
    """Raise `CodingError` for the headers of an answer whose body has a coding (RFC 9110, section 8.4)."""
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise CodingError(f"Content-Encoding is {coding[:40]!r}, which was not asked for")
