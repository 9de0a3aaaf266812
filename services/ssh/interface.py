"""The HTTP interface of a repository, called with the token of a session; every rule stays with the facade."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from services.common.outbound import CodingError, require_identity
from services.ssh.errors import Refused

_MEDIA_TYPE = "application/vnd.git-lfs+json"
_MAX_JSON_BYTES = 16 * 1024**2
_TIMEOUT = httpx.Timeout(60.0, connect=10.0)
_UNAUTHORIZED, _TOO_MANY, _UNAVAILABLE, _BAD_GATEWAY = 401, 429, 503, 502
# A client over HTTP comes again after the Retry-After of a 429; over SSH it gives up.
_MAX_WAIT_SECONDS = 60
CHUNK_BYTES = 256 * 1024


class Facade:
    """A facade, and the address under which clients know it."""

    def __init__(self, url: str, public_url: str | None, certificate: Path | None, max_connections: int) -> None:
        self._url = url
        self.public_url = (public_url or url).rstrip("/")
        public, own = urlsplit(self.public_url), urlsplit(url)
        self._prefix = public.path
        self._hosts = {public.netloc, own.netloc}
        self._headers = {
            "Host": public.netloc,
            "Accept": _MEDIA_TYPE,
            "User-Agent": "towpath-ssh",
            "Accept-Encoding": "identity",
        }
        # The certificate is that of the public name, and the facade is reached by another one.
        self._extensions = {"sni_hostname": public.hostname} if own.scheme == "https" and public.hostname else {}
        self._client = httpx.AsyncClient(
            timeout=_TIMEOUT,
            limits=httpx.Limits(max_connections=max_connections, max_keepalive_connections=32),
            verify=_trusting(certificate),
            trust_env=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        *,
        content: bytes | AsyncIterator[bytes] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """Send a request and give its response, whose body is not read. Raises `Refused` if there is none.

        A path is one of the facade. An address of an action leads to the facade where it is the facade's own, and to
        an object store where it is that one's.
        """
        is_own = True
        if not url.startswith("/"):
            parts = urlsplit(url)
            if is_own := parts.netloc in self._hosts:
                query = f"?{parts.query}" if parts.query else ""
                url = parts.path.removeprefix(self._prefix) + query
        target = f"{self._url}{url}" if is_own else url
        try:
            async with self._client.stream(
                method,
                target,
                headers={**(self._headers if is_own else {}), **headers},
                content=content,
                params=params,
                extensions=self._extensions if is_own else {},
            ) as response:
                yield response
        except httpx.TransportError as error:
            raise Refused(_UNAVAILABLE, "the server does not answer; try again") from error


def _trusting(certificate: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if certificate is not None:
        context.load_verify_locations(certificate)
        # It need not be signed by itself: it is trusted as it is.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


class Repository:
    """A repository of the facade, for the user of a token.

    `renew` gives the secret of another token of the same user where this one has expired; a push may take longer than
    a token lives. It raises `Refused`.
    """

    def __init__(
        self, facade: Facade, name: str, user_name: str, secret: str, renew: Callable[[], Awaitable[str]]
    ) -> None:
        self.facade = facade
        self.name = name
        self.user_name = user_name
        self._base = f"/{name}"
        self._secret = secret
        self._renew = renew

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        accepted: tuple[int, ...] = (),
    ) -> tuple[int, dict[str, Any]]:
        """Make a call, and return its status and its JSON. Raises `Refused` unless it succeeds or is accepted.

        A call that the facade has no place for, or that is over a rate, waits as the facade says, for a minute at most.
        """
        content = None if body is None else json.dumps(body).encode()
        may_renew, seconds_left = True, _MAX_WAIT_SECONDS
        while True:
            status, found, retry_after = await self._send(method, path, content, params)
            if status == _UNAUTHORIZED and may_renew:
                may_renew, self._secret = False, await self._renew()
            elif status == _TOO_MANY and 0 < retry_after <= seconds_left:
                seconds_left -= retry_after
                await asyncio.sleep(retry_after)
            else:
                break
        if not httpx.codes.is_success(status) and status not in accepted:
            raise Refused(status, _message(found))
        return status, found

    async def _send(
        self, method: str, path: str, content: bytes | None, params: Mapping[str, str] | None
    ) -> tuple[int, dict[str, Any], int]:
        """Return the status, the JSON and the seconds of Retry-After, 0 for none."""
        headers = {"Authorization": f"Bearer {self._secret}"}
        if content is not None:
            headers["Content-Type"] = _MEDIA_TYPE
        async with self.facade.request(
            method, f"{self._base}/{path}", headers, content=content, params=params
        ) as response:
            seconds = response.headers.get("retry-after", "")
            retry_after = int(seconds) if seconds.isascii() and seconds.isdigit() and len(seconds) < 5 else 0
            return response.status_code, await read_json(response), retry_after


async def read_json(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON of a response, at most 16 MiB. Raises `Refused` if it is something else."""
    try:
        require_identity(response.headers)
    except CodingError as error:
        raise Refused(_BAD_GATEWAY, f"the server's answer: {error}") from error
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > _MAX_JSON_BYTES:
            raise Refused(_BAD_GATEWAY, "the server's answer is too long")
    try:
        found = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def _message(found: Mapping[str, Any]) -> str:
    message = found.get("message")
    return message if isinstance(message, str) else "the server refuses this"


async def raise_for_status(response: httpx.Response) -> None:
    """Raise `Refused` with the message of a response that is no success."""
    if not response.is_success:
        raise Refused(response.status_code, _message(await read_json(response)))
