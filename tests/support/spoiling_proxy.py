"""A proxy before a Towpath that spoils what passes through it, in one way at a time."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx

from tests.support.streams import LoopbackServer
from tests.support.waiting import STEP_SECONDS

# They are of one connection; the proxy makes its own.
_OF_CONNECTIONS = {"connection", "keep-alive", "transfer-encoding", "content-length"}


@dataclass(frozen=True)
class Asked:
    """A request, whole."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - any JSON
        """The body, parsed; an empty object if it is no JSON object."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The objects of a batch, as far as they are JSON objects."""
        objects = self.json.get("objects")
        return [entry for entry in objects if isinstance(entry, dict)] if isinstance(objects, list) else []

    def is_batch(self, operation: str = "") -> bool:
        """Tell whether this is a batch, for an operation or any."""
        return self.path.endswith("/objects/batch") and (not operation or self.json.get("operation") == operation)

    def is_lock(self) -> bool:
        """Tell whether this is the creation of a lock."""
        return self.method == "POST" and self.path.endswith("/locks")

    def is_list(self) -> bool:
        """Tell whether this lists locks."""
        return self.method == "GET" and self.path.endswith("/locks")

    def is_verification(self) -> bool:
        """Tell whether this lists locks for verification."""
        return self.path.endswith("/locks/verify")

    def is_unlock(self) -> bool:
        """Tell whether this removes a lock."""
        return self.path.endswith("/unlock")

    @property
    def oid(self) -> str:
        """The oid of an action's URL, or nothing."""
        folder, _, name = self.path.rpartition("/")
        return name if folder.endswith("/objects") and name != "batch" else ""

    def with_json(self, body: object) -> "Asked":
        """Return the request with another body."""
        return replace(self, body=json.dumps(body).encode())


@dataclass(frozen=True)
class Given:
    """An answer, whole."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:  # noqa: ANN401 - any JSON
        """The body, parsed; an empty object if it is no JSON object."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    def with_json(self, body: object, status: int | None = None) -> "Given":
        """Return the answer with another body, and perhaps another status."""
        return replace(self, body=json.dumps(body).encode(), status=status or self.status)


Forward = Callable[[Asked], Awaitable[Given]]
Spoil = Callable[[Asked, Forward], Awaitable[Given]]


async def _unspoiled(asked: Asked, forward: Forward) -> Given:
    return await forward(asked)


class SpoilingProxy(LoopbackServer):
    """A proxy before an HTTP server; `spoil` answers each request, and may be changed between two of them."""

    def __init__(self, origin: str, http: httpx.AsyncClient) -> None:
        super().__init__()
        self.spoil: Spoil = _unspoiled
        self.origin = ""
        self._upstream = origin
        self._http = http

    def heal(self) -> None:
        """Pass everything on as it is."""
        self.spoil = _unspoiled

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (asked := await _read(reader)) is not None:
            given = await self.spoil(asked, self._forward)
            reason = HTTPStatus(given.status).phrase
            lines = [
                f"HTTP/1.1 {given.status} {reason}",
                *(f"{name}: {value}" for name, value in given.headers.items()),
            ]
            lines.append(f"content-length: {len(given.body)}")
            writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + given.body)
            await writer.drain()

    async def _forward(self, asked: Asked) -> Given:
        query = f"?{urlencode(asked.query)}" if asked.query else ""
        answer = await self._http.request(
            asked.method,
            f"{self._upstream}{asked.path}{query}",
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in asked.headers.items()],
            content=asked.body if asked.method != "GET" else None,
        )
        headers = {name: value for name, value in answer.headers.items() if name not in _OF_CONNECTIONS}
        return Given(answer.status_code, headers, answer.content)


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    kept = {name: value for name, value in headers.items() if name not in _OF_CONNECTIONS}
    return Asked(method, parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), kept, body)


@asynccontextmanager
async def spoiling_proxy(origin: str) -> AsyncIterator[SpoilingProxy]:
    """Run one. Requests keep their Host, so that the URLs of actions lead to the proxy."""
    async with httpx.AsyncClient(timeout=STEP_SECONDS) as http:
        http.headers.clear()
        proxy = SpoilingProxy(origin, http)
        proxy.origin = f"http://{await proxy.start()}"
        try:
            yield proxy
        finally:
            await proxy.close()
