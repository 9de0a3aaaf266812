"""The upstream: connections to it, and to the hosts at which its objects lie."""

import asyncio
import math
import ssl
import string
import time
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.metadata import version
from pathlib import Path
from typing import Self
from urllib.parse import quote

import httpx

from services.cache import metrics
from services.cache.settings import CacheSettings
from services.common.addresses import is_loopback
from services.common.errors import Reason, ServiceError, Unavailable
from services.common.observability import request_id
from services.common.observability.logs import get_logger
from services.common.outbound import CodingError, Destinations, LedAstrayError, check_location, require_identity
from services.facade.web.error_reasons import invalid_reply

AWAY_STATUSES = (502, 503, 504)
"""The statuses by which a proxy says that the upstream behind it is away."""

_AWAY_SECONDS = 30.0
_RETRY_SECONDS = "10"
_MAX_RETRY_CHARACTERS = 40
_SAFE_IN_QUERY = string.punctuation.replace("#", "")
_MAX_IDLE_CONNECTIONS = 64
# Shorter than servers leave an idle connection open, so that no request meets one that is being closed.
_IDLE_SECONDS = 4.0

# The request itself cannot be sent, which tells nothing of the upstream.
_NEVER_SENT = (httpx.LocalProtocolError, httpx.UnsupportedProtocol)
_NOT_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout)

_log = get_logger(__name__)


class UpstreamAway(Unavailable):
    """The upstream does not answer, or a proxy answers that it is away."""

    def __init__(self, retry_after: str = "") -> None:
        super().__init__(
            Reason.UNAVAILABLE,
            "the server behind this cache does not answer; try again later",
            retry_after=retry_after or _RETRY_SECONDS,
        )


class Upstream:
    """The client of the upstream. `open` closes its connections.

    Neither the proxies of the environment nor redirects are followed, and no cookie is kept: each request has the
    credentials of another person.
    """

    def __init__(self, settings: CacheSettings, client: httpx.AsyncClient) -> None:
        self._url = httpx.URL(settings.cache_upstream)
        self._allows_plain_http = settings.cache_plain_http
        self._client = client
        self._destinations = Destinations(self._url.host)
        self._connect_seconds = settings.cache_connect_seconds
        self._read_seconds = settings.cache_read_seconds
        self._failed_at = self._answered_at = -math.inf

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: CacheSettings) -> AsyncIterator[Self]:
        """Yield the client. Raises ValueError where the file of certificates cannot be used."""
        tls = await asyncio.to_thread(_trust, settings.cache_ca)
        async with httpx.AsyncClient(
            verify=tls,
            trust_env=False,
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=_MAX_IDLE_CONNECTIONS, keepalive_expiry=_IDLE_SECONDS
            ),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            event_hooks={"response": [check_location]},
        ) as client:
            yield cls(settings, client)

    @property
    def is_away(self) -> bool:
        """True after a request that the upstream has not answered, until it answers one, or for half a minute.

        One that it left open while it answered others says nothing of them. Neither does an answer in JSON that it is
        unavailable, which is its own, perhaps to something odd; nor an upload, or the rest of an answer, that breaks
        off.
        """
        return time.monotonic() < self._failed_at + _AWAY_SECONDS

    def url(self, path: str, query: bytes = b"") -> httpx.URL:
        """Return the URL at the upstream of an encoded path and a query."""
        told = b"?" + quote(query, safe=_SAFE_IN_QUERY).encode("ascii") if query else b""
        target = self._url.raw_path.rstrip(b"/") + path.encode("ascii") + told
        return self._url.copy_with(raw_path=target)

    def is_own(self, url: httpx.URL) -> bool:
        """Return whether a URL leads to the upstream itself."""
        return is_same_origin(url, self._url)

    def relocated(self, url: httpx.URL, here: str) -> str:
        """Return a URL, with `here` in place of the upstream's address where it leads to the upstream."""
        root = self._url.raw_path.rstrip(b"/") + b"/"
        if not self.is_own(url) or not url.raw_path.startswith(root):
            return str(url)
        return f"{here}/{url.raw_path.removeprefix(root).decode('ascii')}"

    def may_reach(self, url: httpx.URL) -> bool:
        """Return whether objects may be fetched from a URL: https, or http where the upstream and settings have it.

        The address at which its host is found is looked at by `request`.
        """
        if url.scheme == "https":
            return bool(url.host)
        return url.scheme == self._url.scheme and (self._allows_plain_http or is_loopback(url.host))

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: httpx.URL,
        headers: Sequence[tuple[bytes, bytes]],
        content: bytes | AsyncIterable[bytes] | None = None,
        *,
        seconds: float | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """Send a request, and give its response, whose body is not read; the block may read it.

        The upstream may be silent for `seconds`, by default those of the settings.

        Raises `UpstreamAway` where there is no answer, where it ends early, or where a proxy says so; `ServiceError`
        (INVALID_REPLY) where the answer is not HTTP, the request cannot be sent, or the host is at an address to which
        the upstream may not lead; and the errors of `content`.
        """
        began, is_answered = time.monotonic(), False
        told = httpx.Headers(list(headers))
        told.setdefault("Accept-Encoding", "identity")
        told.setdefault("User-Agent", f"towpath/{version('towpath')}")
        if is_own := self.is_own(url):
            told["X-Request-Id"] = request_id.current()
        try:
            async with self._client.stream(
                method,
                url,
                headers=told,
                content=content,
                timeout=self._timeout(seconds),
                extensions={"trace": self._destinations.check(url.host)},
            ) as response:
                is_answered = True
                if response.status_code in AWAY_STATUSES:
                    is_common = is_own and not _is_json(response)
                    self._failed(url, f"status {response.status_code}", began, trips=is_common)
                    raise UpstreamAway(response.headers.get("retry-after", "")[:_MAX_RETRY_CHARACTERS])
                if is_own:
                    self._failed_at, self._answered_at = -math.inf, time.monotonic()
                yield response
        except _NEVER_SENT as error:
            raise _invalid(type(error).__name__) from error
        except LedAstrayError as error:
            raise _invalid(str(error)) from error
        except httpx.TransportError as error:
            # One client may cause it: it sends or reads slowly, or sends what is not taken or takes long.
            is_common = isinstance(error, _NOT_CONNECTED) or not (is_answered or isinstance(content, AsyncIterable))
            self._failed(url, type(error).__name__, began, trips=is_own and is_common)
            raise UpstreamAway from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise _invalid(type(error).__name__) from error

    def _timeout(self, seconds: float | None) -> httpx.Timeout:
        return httpx.Timeout(seconds or self._read_seconds, connect=self._connect_seconds)

    def _failed(self, url: httpx.URL, problem: str, began: float, *, trips: bool) -> None:
        # Of the URL only the host, because the rest of a signed one is a credential.
        _log.warning("the upstream does not answer", host=url.host, problem=problem)
        metrics.UPSTREAM_ERRORS.labels("away").inc()
        if trips and self._answered_at < began:
            self._failed_at = time.monotonic()


def readable(response: httpx.Response) -> AsyncIterator[bytes]:
    """Return what yields the body of an answer. Raises `ServiceError` (INVALID_REPLY) for one that has a coding."""
    try:
        require_identity(response.headers)
    except CodingError as error:
        raise _invalid(str(error)) from error
    return response.aiter_bytes()


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers as they go over the wire."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _is_json(response: httpx.Response) -> bool:
    """Return whether a program has written an answer: the pages of proxies are HTML or plain text."""
    content_type: str = response.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower().endswith("json")


def _invalid(problem: str) -> ServiceError:
    metrics.UPSTREAM_ERRORS.labels("invalid").inc()
    return invalid_reply("upstream", problem)


def is_same_origin(one: httpx.URL, other: httpx.URL) -> bool:
    """Return whether two URLs have the same scheme, host and port."""
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def _trust(authorities: Path | None) -> ssl.SSLContext:
    tls: ssl.SSLContext = httpx.create_ssl_context()
    if authorities is not None:
        try:
            tls.load_verify_locations(authorities)
        except OSError as error:
            raise ValueError(f"cache_ca: expected a PEM file with certificates: {authorities}") from error
    return tls
