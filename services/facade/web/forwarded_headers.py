"""A request as its client sent it, reconstructed from the headers of trusted proxies (trap-33)."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Scope

from services.common.client_addresses import limit_key, parse_address
from services.common.errors import InvalidArgument
from services.common.observability import request_id
from services.facade.web.error_reasons import HttpReason

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Networks = Iterable[Network]
"""Iterated for each request, so never an iterator; the networks may differ each time."""

_SCHEMES = ("http", "https")
# No empty, "." or ".." parts, and no "=", at which a client would split its configuration (client-21).
_PREFIX = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9._~%-]+)+", re.ASCII)
_PORT = re.compile(r":[0-9]{1,5}", re.ASCII)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?", re.ASCII)


@dataclass(frozen=True)
class ClientRequest:
    """A request as its client sent it.

    `hosts` are the values of its Host header, unchecked; `prefix` is the path that a proxy removed from its address,
    empty or `/a/b`. `request_id` is the id that a trusted proxy gave to the request, else empty.
    """

    address: str
    scheme: str
    hosts: Sequence[str]
    prefix: str = ""
    request_id: str = ""


def resolve_client(peer: str, scheme: str, headers: Headers, trusted: Networks) -> ClientRequest:
    """Return the request as the client sent it, given the connection's peer address and scheme.

    X-Forwarded-For, -Proto, -Host, -Prefix and X-Request-Id are accepted from a trusted peer only. Behind several
    proxies, the client is the right-most address that is not trusted, and of several values of another header the value
    counts that the proxy nearest to the client appended. A malformed value is ignored; a host is checked where it is
    used.
    """
    hosts = headers.getlist("host")
    if not is_trusted(peer, trusted):
        return ClientRequest(peer, scheme, hosts)
    address, proxies = _client(peer, _values(headers, "x-forwarded-for"), trusted)

    def forwarded(name: str) -> str:
        values = _values(headers, name)
        return values[-min(proxies, len(values))] if values else ""

    outer_scheme, prefix = forwarded("x-forwarded-proto").lower(), forwarded("x-forwarded-prefix").rstrip("/")
    host, given_id = forwarded("x-forwarded-host"), headers.get("x-request-id", "")
    return ClientRequest(
        address,
        outer_scheme if outer_scheme in _SCHEMES else scheme,
        [host] if host else hosts,
        prefix if _PREFIX.fullmatch(prefix) else "",
        given_id if request_id.is_acceptable(given_id) else "",
    )


def client_of(scope: Scope) -> ClientRequest:
    """Return the request as its client sent it, resolved by `RequestScope`."""
    seen: ClientRequest = scope["state"]["client"]
    return seen


def origin(public_url: str | None, seen: ClientRequest) -> str:
    """Return the part of hrefs before the repository: `public_url`, else the origin that the client addressed.

    Raises `InvalidArgument` (INVALID_HOST) where the client's host is needed and is missing, malformed or repeated.
    """
    if public_url is not None:
        return public_url
    if len(seen.hosts) != 1 or not _HOST.fullmatch(seen.hosts[0]):
        raise InvalidArgument(HttpReason.INVALID_HOST, "host: expected one HOST or HOST:PORT")
    return f"{seen.scheme}://{seen.hosts[0]}{seen.prefix}"


def client_network(address: str, trusted: Networks) -> str | None:
    """Return the network of a single client: an IPv4 address, or the /64 of an IPv6 address.

    Return None where the text is no address, and where the address is loopback or trusted, because any client may be
    behind it.
    """
    parsed = parse_address(address)
    if parsed is None or parsed.is_loopback or is_trusted(address, trusted):
        return None
    return limit_key(address)


def _values(headers: Headers, name: str) -> list[str]:
    parts = [part.strip() for line in headers.getlist(name) for part in line.split(",")]
    return [part for part in parts if part]


def _client(peer: str, addresses: Sequence[str], trusted: Networks) -> tuple[str, int]:
    """Return the client's address, and the number of trusted proxies between the client and the facade."""
    client, proxies = peer, 1
    for text in reversed(addresses):
        address = _without_port(text)
        if parse_address(address) is None:
            break
        client = address
        if not is_trusted(address, trusted):
            break
        proxies += 1
    return client, proxies


def _without_port(text: str) -> str:
    """Return the address in `ADDRESS`, `IPV4:PORT`, `[IPV6]` or `[IPV6]:PORT`."""
    if text.startswith("["):
        address, _, rest = text[1:].partition("]")
        return address if not rest or _PORT.fullmatch(rest) else text
    address, colon, port = text.partition(":")
    return address if _PORT.fullmatch(colon + port) else text


def is_trusted(text: str, trusted: Networks) -> bool:
    """Return whether an address belongs to a trusted proxy."""
    address = parse_address(text)
    return address is not None and any(address in network for network in trusted)
