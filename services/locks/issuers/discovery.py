"""The key set of an issuer, found by OpenID Connect Discovery: two requests, bounded in bytes and time."""

import asyncio
import ipaddress
import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx
from pydantic_core import from_json

from services.locks.issuers.keys import SigningKey, parse_key_set

_DOCUMENT = "/.well-known/openid-configuration"
_SECONDS = 5.0
_MAX_BYTES = 256 * 1024
_MAX_URL_CHARACTERS = 2_000


class IssuerUnavailableError(Exception):
    """The keys of an issuer cannot be read; the message says why."""


def check_url(url: str) -> None:
    """Raise ValueError unless a URL is https with a host, or http with a loopback address.

    Whoever could change what an issuer answers over http could sign as anybody.
    """
    parts = urlsplit(url)
    is_visible = url.isascii() and url.isprintable() and " " not in url
    if len(url) > _MAX_URL_CHARACTERS or not is_visible or not parts.hostname or parts.username is not None:
        raise ValueError(f"expected https://HOST/..., at most {_MAX_URL_CHARACTERS} characters, without credentials")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise ValueError("expected a URL without a query and without a fragment")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname)):
        raise ValueError("expected https; only a loopback address may have http")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Discovery:
    """Reads key sets. Neither redirects nor the proxies of the environment are followed."""

    def __init__(self) -> None:
        self._tls: asyncio.Future[ssl.SSLContext] | None = None

    async def read_keys(self, issuer_url: str) -> Sequence[SigningKey]:
        """Return the keys of an issuer. Raises `IssuerUnavailableError`, after five seconds at the latest."""
        try:
            async with asyncio.timeout(_SECONDS), await self._client() as client:
                found = await _read_json(client, issuer_url.rstrip("/") + _DOCUMENT)
                return parse_key_set(await _read_json(client, _key_set_url(found, issuer_url)))
        except TimeoutError as error:
            raise IssuerUnavailableError(f"no answer within {_SECONDS:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise IssuerUnavailableError(f"{type(error).__name__}: {error}") from error
        except ValueError as error:
            raise IssuerUnavailableError(str(error)) from error

    async def _client(self) -> httpx.AsyncClient:
        if self._tls is None:
            # It reads all certificates of the system.
            self._tls = asyncio.ensure_future(asyncio.to_thread(httpx.create_ssl_context))
        return httpx.AsyncClient(verify=await asyncio.shield(self._tls), trust_env=False, timeout=_SECONDS)


def _key_set_url(found: object, issuer_url: str) -> str:
    """Return the URL of the key set that a discovery document names. Raises ValueError for another issuer's."""
    document = found if isinstance(found, dict) else {}
    if document.get("issuer") != issuer_url:
        raise ValueError(f"the discovery document is that of {document.get('issuer')!r}, expected {issuer_url!r}")
    named = document.get("jwks_uri")
    url = named if isinstance(named, str) else ""
    parts = urlsplit(url)
    if parts.scheme != "https" and urlsplit(issuer_url).scheme == "https":
        raise ValueError("the jwks_uri of the discovery document is not https")
    try:
        check_url(url.partition("?")[0])
    except ValueError as error:
        raise ValueError(f"jwks_uri: {error}") from error
    return url


async def _read_json(client: httpx.AsyncClient, url: str) -> object:
    """Return the JSON at a URL. Raises ValueError for another status than 200, and for more than 256 KiB."""
    body = bytearray()
    async with client.stream("GET", url, headers={"Accept": "application/json"}) as response:
        if response.status_code != httpx.codes.OK:
            raise ValueError(f"{url} answered {response.status_code}")
        async for part in response.aiter_bytes():
            body += part
            if len(body) > _MAX_BYTES:
                raise ValueError(f"{url} answered more than {_MAX_BYTES} bytes")
    value: object = from_json(bytes(body))
    return value
