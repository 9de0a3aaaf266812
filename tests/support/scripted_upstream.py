"""An upstream that fails as servers and stores do: it sends other bytes, breaks off, waits, redirects, refuses."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.http import MEDIA_TYPE, oid_of
from tests.support.streams import LoopbackServer

STORE_HEADER = "x-store-secret"
STORE_SECRET = "what only the store may see"
_RANGE = re.compile(r"bytes=([0-9]+)-")


@dataclass(frozen=True)
class Seen:
    """A request that has come: its method, its target, its headers in lower case, and its body."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class ScriptedUpstream(LoopbackServer):
    """A server with one repository at any base address; its fields may be changed at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.origin = ""
        self.objects: dict[str, bytes] = {}
        self.readers = {"reader"}
        """The credentials that may read, as the texts of Authorization headers; an empty one is that of strangers."""
        self.seen: list[Seen] = []
        self.store_origin = ""
        """The origin of the actions, if it is another server."""
        self.redirect = ""
        """The origin to which downloads are redirected."""
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        """Answers in place of its own, by the end of the target."""
        self.cuts: list[int] = []
        """The numbers of bytes after which the next downloads break off."""
        self.takes_ranges = True
        self.action_fields: dict[str, Any] = {"expires_in": 3600}
        self.entry_fields: dict[str, Any] = {"authenticated": True}
        self.held_after: int | None = None
        """The number of bytes of a download that are sent before `flowing` is waited for."""
        self.flowing = asyncio.Event()
        self.cookies = 0

    async def start(self) -> str:
        """Listen."""
        self.origin = f"http://{await super().start()}"
        return self.origin

    def add(self, data: bytes, oid: str | None = None) -> str:
        """Hold bytes under their oid, or under that of others."""
        name = oid or oid_of(data)
        self.objects[name] = data
        return name

    def downloads(self, oid: str) -> list[Seen]:
        """Return the requests for the bytes of an object."""
        return [seen for seen in self.seen if seen.method == "GET" and seen.target.endswith(f"/store/{oid}")]

    @property
    def batches(self) -> list[Seen]:
        """The batch requests."""
        return [seen for seen in self.seen if seen.target.endswith("/objects/batch")]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await _head(reader):
            first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
            method, target, _ = first.split(" ")
            headers = {name.lower(): text for name, _, text in (line.partition(": ") for line in lines)}
            seen = Seen(method, target, headers, await _body(reader, headers))
            self.seen.append(seen)
            status, told, data = await self._answer(seen)
            self.cookies += 1
            told = {"Content-Length": str(len(data)), "Set-Cookie": f"session={self.cookies}", **told}
            lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {text}" for name, text in told.items())]
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            if not await self._send(seen, writer, data):
                writer.transport.abort()
                return
            await writer.drain()

    async def _send(self, seen: Seen, writer: asyncio.StreamWriter, data: bytes) -> bool:
        """Send a body; return False where the connection breaks off."""
        if "/store/" in seen.target and seen.method == "GET":
            if self.held_after is not None:
                writer.write(data[: self.held_after])
                await writer.drain()
                await self.flowing.wait()
                data = data[self.held_after :]
            if self.cuts and len(data) > (cut := self.cuts.pop(0)):
                writer.write(data[:cut])
                await writer.drain()
                # So that the bytes arrive before the reset.
                await asyncio.sleep(0.2)
                return False
        writer.write(data)
        return True

    async def _answer(self, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        for end, answer in self.answers.items():
            if seen.target.endswith(end):
                return answer
        if seen.target.endswith("/objects/batch"):
            return self._batch(seen)
        if "/store/" in seen.target and seen.method == "GET":
            return self._download(seen)
        return 200, {"Content-Type": MEDIA_TYPE}, json.dumps({"target": seen.target}).encode()

    def _batch(self, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        if seen.headers.get("authorization", "") not in self.readers:
            body = json.dumps({"message": "who are you"}).encode()
            return 401, {"Content-Type": MEDIA_TYPE, "Blob-Authenticate": 'Basic realm="far away"'}, body
        entries = []
        for entry in json.loads(seen.body)["objects"]:
            if (oid := entry["oid"]) in self.objects:
                href = f"{self.store_origin or self.origin}/store/{oid}"
                action = {"href": href, "header": {STORE_HEADER: STORE_SECRET}, **self.action_fields}
                entries.append({**entry, "actions": {"download": action}, **self.entry_fields})
            else:
                entries.append({**entry, "error": {"code": 404, "message": "no such object"}})
        return 200, {"Content-Type": MEDIA_TYPE}, json.dumps({"objects": entries}).encode()

    def _download(self, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        if self.redirect:
            return 302, {"Location": f"{self.redirect}{seen.target}"}, b""
        data = self.objects[seen.target.rpartition("/")[2]]
        found = _RANGE.fullmatch(seen.headers.get("range", ""))
        if found is None or not self.takes_ranges:
            return 200, {}, data
        start = int(found[1])
        return 206, {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}, data[start:]


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    return await reader.readexactly(int(headers.get("content-length", "0")))


@asynccontextmanager
async def scripted_upstream() -> AsyncIterator[ScriptedUpstream]:
    """Run one."""
    upstream = ScriptedUpstream()
    await upstream.start()
    try:
        yield upstream
    finally:
        upstream.flowing.set()
        await upstream.close()
