"""The keys and endpoints of an issuer, found by OpenID Connect Discovery: two requests, bounded in bytes and time."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
from pydantic_core import from_json

from services.common.addresses import is_loopback
from services.common.outbound import require_identity
from services.locks.issuers.keys import SigningKey, parse_key_set

_DOCUMENT = "/.well-known/openid-configuration"
ANSWER_SECONDS = 5.0
"""The time that an issuer has for an answer."""
_MAX_BYTES = 256 * 1024
_MAX_URL_CHARACTERS = 2_000


class IssuerUnavailableError(Exception):
    """The keys of an issuer cannot be read; the message says why."""


class Endpoints(NamedTuple):
    """The URLs at which people sign in and codes are redeemed or given out, empty where there is none to be used.

    `names_itself` says that an issuer puts its URL into each authorization response (RFC 9207).
    """

    authorization: str
    token: str
    scopes: frozenset[str] = frozenset()
    names_itself: bool = False
    device: str = ""


class Metadata(NamedTuple):
    """The keys and the endpoints of an issuer."""

    keys: Sequence[SigningKey]
    endpoints: Endpoints


def check_url(url: str) -> None:
    """Raise ValueError unless a URL is https with a host, or http with a loopback address.

    Whoever could change what an issuer answers over http could sign as anybody.
    """
    parts = urlsplit(url)
    if len(url) > _MAX_URL_CHARACTERS or not is_visible(url) or not parts.hostname or parts.username is not None:
        raise ValueError(f"expected https://HOST/..., at most {_MAX_URL_CHARACTERS} characters, without credentials")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise ValueError("expected a URL without a query and without a fragment")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
        raise ValueError("expected https; only a loopback address may have http")


def is_visible(text: str) -> bool:
    """Return whether a text is printable ASCII without spaces."""
    return text.isascii() and text.isprintable() and " " not in text


class Discovery:
    """Makes requests to issuers. Neither redirects nor the proxies of the environment are followed."""

    def __init__(self) -> None:
        self._tls: asyncio.Future[ssl.SSLContext] | None = None

    async def read(self, issuer_url: str) -> Metadata:
        """Return what an issuer publishes. Raises `IssuerUnavailableError`, after five seconds at the latest."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS), await self.client() as client:
                found = await _read_json(client, issuer_url.rstrip("/") + _DOCUMENT)
                keys = parse_key_set(await _read_json(client, _key_set_url(found, issuer_url)))
                return Metadata(keys, _endpoints(found, issuer_url))
        except TimeoutError as error:
            raise IssuerUnavailableError(f"no answer within {ANSWER_SECONDS:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise IssuerUnavailableError(f"{type(error).__name__}: {error}") from error
        except ValueError as error:
            raise IssuerUnavailableError(str(error)) from error

    async def client(self) -> httpx.AsyncClient:
        """Return a new client, which the caller closes."""
        if self._tls is None:
            # It reads all certificates of the system.
            self._tls = asyncio.ensure_future(asyncio.to_thread(httpx.create_ssl_context))
        return httpx.AsyncClient(
            verify=await asyncio.shield(self._tls),
            trust_env=False,
            timeout=ANSWER_SECONDS,
            headers={"Accept-Encoding": "identity"},
        )


def _key_set_url(found: object, issuer_url: str) -> str:
    """Return the URL of the key set that a discovery document names. Raises ValueError for another issuer's."""
    document = found if isinstance(found, dict) else {}
    if document.get("issuer") != issuer_url:
        named = ascii(document.get("issuer"))[:_MAX_URL_CHARACTERS]
        raise ValueError(f"the discovery document is that of {named}, expected {issuer_url!r}")
    try:
        return _url_in(document, "jwks_uri", issuer_url)
    except ValueError as error:
        raise ValueError(f"jwks_uri: {error}") from error


def _url_in(document: Mapping[str, object], name: str, issuer_url: str) -> str:
    """Return a URL of a discovery document. Raises ValueError for one that may not be used."""
    named = document.get(name)
    url = named if isinstance(named, str) else ""
    if urlsplit(url).scheme != "https" and urlsplit(issuer_url).scheme == "https":
        raise ValueError("the URL in the discovery document is not https")
    path, _, query = url.partition("?")
    check_url(path)
    if len(query) > _MAX_URL_CHARACTERS or not is_visible(query) or "#" in query:
        raise ValueError("expected a URL without a fragment")
    return url


def _endpoints(found: object, issuer_url: str) -> Endpoints:
    """Return the endpoints of a discovery document. Keys count also where nobody can sign in by a code."""
    document = found if isinstance(found, dict) else {}
    scopes = document.get("scopes_supported")
    names = frozenset(scope for scope in scopes if isinstance(scope, str)) if isinstance(scopes, list) else frozenset()
    return Endpoints(
        _endpoint(document, "authorization_endpoint", issuer_url),
        _endpoint(document, "token_endpoint", issuer_url),
        names,
        document.get("authorization_response_iss_parameter_supported") is True,
        _endpoint(document, "device_authorization_endpoint", issuer_url),
    )


def _endpoint(document: Mapping[str, object], name: str, issuer_url: str) -> str:
    try:
        return _url_in(document, name, issuer_url)
    except ValueError:
        return ""


async def _read_json(client: httpx.AsyncClient, url: str) -> object:
    """Return the JSON at a URL. Raises ValueError for another status than 200, and for more than 256 KiB."""
    async with client.stream("GET", url, headers={"Accept": "application/json"}) as response:
        if response.status_code != httpx.codes.OK:
            raise ValueError(f"{url} answered {response.status_code}")
        return await json_of(response)


async def json_of(response: httpx.Response) -> object:
    """Return the JSON of a streamed answer. Raises ValueError for anything else, and for more than 256 KiB."""
    require_identity(response.headers)
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _MAX_BYTES:
            raise ValueError(f"{response.url} answered more than {_MAX_BYTES} bytes")
    value: object = from_json(bytes(body))
    return value
