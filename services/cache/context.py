"""The objects that all endpoints of a cache share, and the headers that it passes on."""

from collections.abc import Iterable
from dataclasses import dataclass

import httpx
from starlette.datastructures import Headers
from starlette.requests import Request

from services.cache.objects import Objects
from services.cache.rights import Rights
from services.cache.settings import CacheSettings
from services.cache.tokens import Tokens
from services.cache.upstream import Upstream
from services.common.outbound import parse_url
from services.facade.middleware.concurrency_limit import Slots
from services.facade.web.forwarded_headers import ClientRequest, Networks, client_of, origin

# Others may be credentials that the memory of rights does not tell apart, such as cookies.
_PASSED_TO_UPSTREAM = (
    b"accept",
    b"accept-language",
    b"authorization",
    b"content-encoding",
    b"content-type",
    b"if-none-match",
    b"last-event-id",
    b"user-agent",
)
# The whitespace around a value is no part of it (RFC 9110, section 5.5), and the client of the upstream refuses to send
# it; other characters that it refuses have been answered 400 by the server.
_AROUND = b" \t"
# Of one connection (RFC 9110, section 7.6.1), of the upstream's own origin, or written anew.
_NOT_PASSED_TO_CLIENT = (
    "alt-svc",
    "connection",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "server",
    "set-cookie",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-request-id",
)


@dataclass(frozen=True)
class CacheContext:
    """The settings of this process, and the objects made from them."""

    settings: CacheSettings
    upstream: Upstream
    objects: Objects
    rights: Rights
    tokens: Tokens
    watches: Slots
    """The slots of the clients that watch the events of locks."""
    trusted: Networks
    """The proxies whose headers are believed."""


def to_upstream(headers: Headers, seen: ClientRequest) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request that the upstream gets, and the address of the client."""
    passed = [(name, value.strip(_AROUND)) for name, value in headers.raw if name in _PASSED_TO_UPSTREAM]
    return [*passed, (b"x-forwarded-for", seen.address.encode())] if seen.address else passed


def to_client(
    context: CacheContext, request: Request, response: httpx.Response, *, without: Iterable[str] = ()
) -> list[tuple[bytes, bytes]]:
    """Return the headers of the upstream's answer that the client gets; a redirect to the upstream leads here.

    Raises the errors of `origin`, and `httpx.InvalidURL`.
    """
    headers = response.headers
    named = {token.strip().lower() for value in headers.get_list("connection") for token in value.split(",")}
    dropped = {*_NOT_PASSED_TO_CLIENT, *named, *without}
    passed = [(name.lower(), value) for name, value in headers.raw if name.decode("latin-1").lower() not in dropped]
    if "location" not in headers:
        return passed
    here = origin(context.settings.public_url, client_of(request.scope))
    location = context.upstream.relocated(parse_url(headers["location"], response.url), here)
    return [(name, location.encode() if name == b"location" else value) for name, value in passed]
