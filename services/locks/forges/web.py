"""HTTP requests to forges, bounded in time and bytes, and the ways in which forges ask for fewer of them."""

import asyncio
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

import httpx

from services.common.outbound import check_location, parse_url, retry_after

_MAX_BODY_BYTES = 1024 * 1024
_MAX_REDIRECTS = 3
_REDIRECTS = (301, 302, 307, 308)
_MAX_CONNECTIONS = 64
_CONNECT_SECONDS = 3.0
_THROTTLED_SECONDS = 60.0
_AWAY_SECONDS = 5.0
_MAX_PAUSE_SECONDS = 3600.0
# The texts by which GitHub says that the limit is that of a token, and not that of this host.
_OF_CREDENTIAL = ("rate limit exceeded for user id", "rate limit exceeded for installation id")


class ForgeUnavailableError(Exception):
    """The forge did not answer a look-up; another attempt makes sense after `seconds`.

    With `of_credential`, this says nothing of look-ups with other credentials.
    """

    def __init__(self, message: str, seconds: float = _AWAY_SECONDS, *, of_credential: bool = False) -> None:
        super().__init__(message)
        self.seconds = min(max(seconds, 1.0), _MAX_PAUSE_SECONDS)
        self.of_credential = of_credential


class ForgeThrottledError(ForgeUnavailableError):
    """The forge asks for fewer requests."""


def odd_answer(message: str) -> ForgeUnavailableError:
    """Return the error for an answer that has no meaning here; others may get better ones."""
    return ForgeUnavailableError(message, of_credential=True)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a forge: its status and its JSON object, which is empty unless the status is 200."""

    status: int
    body: Mapping[str, Any]


class Web:
    """The pooled connections to all forges. Its owner closes it.

    Neither the proxies of the environment nor redirects to another origin are followed, because each request carries
    a credential.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._client: asyncio.Future[httpx.AsyncClient] | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await (await self._client).aclose()

    async def get(self, url: str, headers: Mapping[str, str]) -> Answer:
        """Return the answer to a GET, after redirects. Raises `ForgeUnavailableError`."""
        at = httpx.URL(url)
        for _ in range(_MAX_REDIRECTS + 1):
            status, received, data = await self._request(at, headers)
            if status not in _REDIRECTS:
                _check_available(status, received, data)
                return Answer(status, _json_object(data) if status == 200 else {})
            target = parse_url(received.get("location", ""), at)
            if (target.scheme, target.host, target.port) != (at.scheme, at.host, at.port):
                raise odd_answer("the forge redirects to another origin")
            at = target
        raise odd_answer("the forge redirects without an end")

    async def status(self, url: str, headers: Mapping[str, str]) -> int:
        """Return the status of a GET, whose body may be large and is not read. Raises `ForgeUnavailableError`."""
        status, received, data = await self._request(httpx.URL(url), headers, reads=False)
        _check_available(status, received, data)
        return status

    async def _request(
        self, url: httpx.URL, headers: Mapping[str, str], *, reads: bool = True
    ) -> tuple[int, httpx.Headers, bytes]:
        try:
            client = await self._opened()
            async with client.stream("GET", url, headers={**headers, "Accept-Encoding": "identity"}) as response:
                # Refusals are read in any case, because their text may tell a throttled forge.
                data = await _bounded_body(response) if reads or response.status_code != 200 else b""
                return response.status_code, response.headers, data
        except httpx.InvalidURL as error:
            raise odd_answer("the forge redirects to no URL") from error
        except (httpx.HTTPError, OSError) as error:
            raise ForgeUnavailableError(f"the forge does not answer: {type(error).__name__}") from error

    async def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = asyncio.ensure_future(self._open())
        return await asyncio.shield(self._client)

    async def _open(self) -> httpx.AsyncClient:
        # In a thread, because it reads all certificates, those that SSL_CERT_FILE names among them.
        tls: ssl.SSLContext = await asyncio.to_thread(httpx.create_ssl_context)
        return httpx.AsyncClient(
            verify=tls,
            trust_env=False,
            timeout=httpx.Timeout(self._seconds, connect=min(_CONNECT_SECONDS, self._seconds)),
            limits=httpx.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=_MAX_CONNECTIONS // 4),
            headers={"User-Agent": _user_agent()},
            event_hooks={"response": [check_location]},
        )


@cache
def _user_agent() -> str:
    return f"towpath/{version('towpath')}"


async def _bounded_body(response: httpx.Response) -> bytes:
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > _MAX_BODY_BYTES:
            raise odd_answer(f"the answer of the forge has more than {_MAX_BODY_BYTES} bytes")
    return bytes(data)


def _json_object(data: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise odd_answer("the answer of the forge is no JSON") from error
    if not isinstance(body, dict):
        raise odd_answer("the answer of the forge is no JSON object")
    return body


def _check_available(status: int, headers: httpx.Headers, data: bytes) -> None:
    """Raise for a forge that is away or throttled: GitHub says the latter by 403, GitLab and proxies by 429."""
    text = data[:4096].decode(errors="replace").lower()
    limited = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers or "rate limit" in text
    if status == 429 or (status == 403 and limited):
        of_credential = any(words in text for words in _OF_CREDENTIAL) or headers.get("ratelimit-name", "").startswith(
            "throttle_authenticated"
        )
        seconds = _pause_seconds(headers, _THROTTLED_SECONDS)
        raise ForgeThrottledError("the forge asks for fewer requests", seconds, of_credential=of_credential)
    if status >= 500:
        raise ForgeUnavailableError(f"the forge answers {status}", _pause_seconds(headers, _AWAY_SECONDS))


def _pause_seconds(headers: httpx.Headers, default: float) -> float:
    """Return the seconds for which an answer asks to wait: Retry-After, or the time at which a limit is reset."""
    if "retry-after" in headers:
        seconds = retry_after(headers["retry-after"], datetime.now(UTC))
        return default if seconds is None else seconds
    reset = headers.get("x-ratelimit-reset") or headers.get("ratelimit-reset") or ""
    return float(reset[:12]) - time.time() if reset.isdecimal() else default
