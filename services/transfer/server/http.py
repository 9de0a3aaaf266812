"""HTTP to a server of the protocol: its throttling is obeyed, and credentials go only where they belong."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from services.cli.errors import CommandError
from services.cli.git_credentials import Credential, GitCredentials
from services.common.outbound import (
    CodingError,
    Destinations,
    LedAstrayError,
    check_location,
    parse_url,
    require_identity,
    retry_after,
)
from services.transfer.errors import Interrupted

MEDIA_TYPE = "application/vnd.git-lfs+json"

_CONNECT_SECONDS = 20.0
_SILENT_SECONDS = 60.0
_MAX_ANSWER_BYTES = 16 * 1024**2
_MAX_MESSAGE = 300
_MAX_WAIT_SECONDS = 3600.0
_MAX_REDIRECTS = 5
_THROTTLED = (429, 503)
_TEMPORARY = (408, 500, 502, 504)
_AUTHORIZATION = "authorization"
# The headers of a request that go to another origin, too; all others may be credentials.
_SENT_ELSEWHERE = ("accept", "range")


class Refused(Exception):
    """The server answered with a status that a repeat does not change."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Http:
    """A client of one server, and of the stores that it sends to; `close` ends its connections."""

    def __init__(self, credentials: GitCredentials, *, server: str, max_connections: int) -> None:
        self._credentials = credentials
        self._destinations = Destinations(httpx.URL(server).host)
        self._known: dict[str, Credential] = {}
        self._asking = asyncio.Lock()
        self._not_before: dict[str, float] = {}
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(_SILENT_SECONDS, connect=_CONNECT_SECONDS, pool=None),
            limits=httpx.Limits(max_connections=max_connections, max_keepalive_connections=max_connections),
            headers={"User-Agent": f"towpath/{version('towpath')}", "Accept-Encoding": "identity"},
            event_hooks={"response": [check_location]},
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def json(
        self, method: str, url: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a request of the protocol, and return the JSON object of the answer.

        Raises `Interrupted`, `Refused`, and `CommandError` for credentials that are refused, and for an answer that is
        too long or no JSON object.
        """
        content = None if body is None else json.dumps(body).encode()
        sent = {"Accept": MEDIA_TYPE, **({} if content is None else {"Content-Type": MEDIA_TYPE}), **(headers or {})}
        async with self.send(method, url, headers=sent, content=content) as response:
            text = await _text_of(response, _MAX_ANSWER_BYTES)
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise CommandError(f"{without_query(url)}: the answer is no JSON object; is it the address for git-lfs?")
        return answer

    @asynccontextmanager
    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        content: bytes | AsyncIterator[bytes] | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """Send a request, and yield its answer, of a status below 400, whose body is not read yet.

        A request without an Authorization header of its own gets credentials once the server asks for them. Raises
        `Interrupted`, also where the body ends amid the block, `Refused`, and `CommandError` for credentials that are
        refused.
        """
        place = origin_of(url)
        signs = not any(name.lower() == _AUTHORIZATION for name in headers)
        tried: Credential | None = None
        while True:
            await self._wait(place)
            credential = self._known.get(place) if signs else None
            sent = {**headers, "Authorization": credential.header} if credential is not None else dict(headers)
            async with self._response(method, url, sent, content) as response:
                # Another origin, to which a redirect led, has not seen the credential.
                is_elsewhere = origin_of(str(response.url)) != place
                if response.status_code != httpx.codes.UNAUTHORIZED or not signs or is_elsewhere:
                    await self._check(place, response)
                    if credential is not None and credential is tried:
                        await self._credentials.approve(credential)
                    yield response
                    return
            tried = await self._sign_in(url, credential)
            if content is not None and not isinstance(content, bytes):
                raise Interrupted("the server asked for credentials", seconds=0.0)

    @asynccontextmanager
    async def _response(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | AsyncIterator[bytes] | None
    ) -> AsyncIterator[httpx.Response]:
        sent = dict(headers)
        try:
            at = parse_url(url)
            for _ in range(_MAX_REDIRECTS + 1):
                extensions = {} if _is_proxied(at) else {"trace": self._destinations.check(at.host)}
                async with self._client.stream(
                    method, at, headers=sent, content=content, extensions=extensions
                ) as response:
                    try:
                        require_identity(response.headers)
                    except CodingError as error:
                        raise Refused(response.status_code, str(error)) from None
                    if method != "GET" or not response.has_redirect_location:
                        yield response
                        return
                    target = _target_of(response)
                if origin_of(str(target)) != origin_of(str(at)):
                    sent = {name: value for name, value in sent.items() if name.lower() in _SENT_ELSEWHERE}
                at = target
            raise CommandError(f"{without_query(url)}: it redirects without end")
        except httpx.TransportError as error:
            unreachable = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            what = "cannot be reached" if unreachable else "the connection broke"
            reason = str(error) or type(error).__name__
            raise Interrupted(f"{origin_of(url)}: {what}: {reason}", is_unreachable=unreachable) from error
        except httpx.InvalidURL:
            raise Refused(0, "the server answers with an invalid URL") from None
        except LedAstrayError as error:
            raise Refused(0, str(error)) from None

    async def _check(self, place: str, response: httpx.Response) -> None:
        """Raise the error of an answer."""
        status = response.status_code
        if status < httpx.codes.MULTIPLE_CHOICES:
            return
        if status < httpx.codes.BAD_REQUEST:
            target = without_query(response.headers.get("location", ""))
            raise CommandError(f"{place}: it redirects to {target or 'nowhere'}; give that address")
        message = _message_of(await _text_of(response, _MAX_ANSWER_BYTES, lenient=True)) or response.reason_phrase
        if status in _THROTTLED:
            seconds = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
            if seconds is not None:
                if seconds > _MAX_WAIT_SECONDS:
                    raise CommandError(f"{place}: it asks to come back in {seconds:.0f} s: {message}")
                self._not_before[place] = max(self._not_before.get(place, 0.0), time.monotonic() + seconds)
            raise Interrupted(f"{place}: it answers {status}: {message}", seconds=seconds)
        if status in _TEMPORARY:
            raise Interrupted(f"{place}: it answers {status}: {message}")
        raise Refused(status, f"it answers {status}: {message}")

    async def _wait(self, place: str) -> None:
        """Wait until the server wants to be asked again."""
        while (left := self._not_before.get(place, 0.0) - time.monotonic()) > 0:  # noqa: ASYNC110 - it is a clock
            await asyncio.sleep(left + random.random() / 10)  # noqa: S311 - no secret

    async def _sign_in(self, url: str, refused: Credential | None) -> Credential | None:
        """Find a credential in place of the one that was refused. Raises `CommandError`."""
        place = origin_of(url)
        async with self._asking:
            known = self._known.get(place)
            if known is not refused:
                # Another request has found it meanwhile.
                return known
            if refused is not None:
                await self._credentials.reject(refused)
                del self._known[place]
                raise CommandError(f"{place}: it refuses the name and the password that git's helpers have for it")
            found = await self._credentials.fill(url)
            if found is None:
                raise CommandError(
                    f"{place}: it asks for a name and a password, and git has none for it: store them with a helper, "
                    "such as by `git credential approve`"
                )
            self._known[place] = found
            return found


def _is_proxied(url: httpx.URL) -> bool:
    """Return whether the environment names a proxy for a URL, which then looks up and connects."""
    proxies = getproxies()
    return bool(proxies.get(url.scheme) or proxies.get("all")) and not proxy_bypass(url.host)


def _target_of(response: httpx.Response) -> httpx.URL:
    """Return where an answer redirects to. Raises `httpx.InvalidURL`, and `Refused` for a scheme without TLS."""
    target = parse_url(response.headers["location"], response.url)
    if target.scheme != "https" and target.scheme != response.url.scheme:
        raise Refused(0, f"the server redirects from {response.url.scheme} to {target.scheme}")
    return target


async def _text_of(response: httpx.Response, most: int, *, lenient: bool = False) -> str:
    held = bytearray()
    async for chunk in response.aiter_bytes():
        held += chunk
        if len(held) > most:
            if lenient:
                break
            raise CommandError(f"{without_query(str(response.url))}: expected an answer of at most {most} bytes")
    return held.decode(errors="replace")


def _message_of(text: str) -> str:
    """Return the message in the body of an error, as one short line; empty where there is none."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    message = answer.get("message") if isinstance(answer, dict) else None
    return "".join(c if c.isprintable() else " " for c in message[:_MAX_MESSAGE]) if isinstance(message, str) else ""


def origin_of(url: str) -> str:
    """Return the scheme, the host and the port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def without_query(url: str) -> str:
    """Return a URL as it may be shown: without a query, which may be a signature, and without credentials."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else parts.path
