"""A server of the protocol that misbehaves as it is told: it throttles, breaks off, forgets, and answers nonsense."""

import base64
import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.http import oid_of

REPOSITORY = "/studio/film"


@dataclass
class Told:
    """One answer in place of the usual one: a status, headers and a body."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class ScriptedServer(ThreadingHTTPServer):
    """A repository with objects and locks. Its fields may be changed at any time."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        # Objects of which the batch tells something else than their bytes are.
        self.sizes: dict[str, int] = {}
        self.locks: list[dict[str, Any]] = []
        self.page = 100
        self.login: tuple[str, str] | None = None
        self.max_batch = 1000
        # Answers that come before the usual ones, for requests whose line contains the text.
        self.script: dict[str, deque[Told]] = {}
        # After so many bytes the connection ends, once for each.
        self.breaks: deque[int] = deque()
        self.takes_ranges = True
        self.wrong_ranges = False
        self.expires_in: float | None = None
        self.expires_at: str | None = None
        # Actions are good for one use, as far as they are numbered so.
        self.uses: set[str] = set()
        self.counted_uses = False
        self.has_verify = False
        self.verified: list[str] = []
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []

    @property
    def origin(self) -> str:
        """The scheme, the host and the port."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        """The base URL of the repository."""
        return f"{self.origin}{REPOSITORY}"

    def add(self, *datas: bytes) -> None:
        """Hold objects."""
        self.objects |= {oid_of(data): data for data in datas}

    def answer(self, text: str, *told: Told) -> None:
        """Give these answers, one after the other, to requests whose line contains the text."""
        self.script.setdefault(text, deque()).extend(told)

    def count(self, text: str) -> int:
        """Return how many requests had the text in their line."""
        return sum(text in line for line in self.requests)


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        pass

    def do_POST(self) -> None:
        self._handle(self.rfile.read(int(self.headers["Content-Length"])))

    def do_PUT(self) -> None:
        self._handle(self.rfile.read(int(self.headers["Content-Length"])))

    def do_GET(self) -> None:
        self._handle(b"")

    def _handle(self, body: bytes) -> None:
        server = self.server
        server.requests.append(f"{self.command} {self.path}")
        server.headers.append(dict(self.headers.items()))
        for text, told in server.script.items():
            if told and text in server.requests[-1]:
                return self._tell(told.popleft())
        if not self._is_signed_in():
            return self._tell(Told(401, {"WWW-Authenticate": 'Basic realm="film"'}, b'{"message": "who are you?"}'))
        route = self.path.removeprefix(REPOSITORY).partition("?")[0]
        if route == "/objects/batch":
            return self._batch(json.loads(body))
        if route == "/locks":
            return self._locks()
        if route.startswith("/verify"):
            server.verified.append(json.loads(body)["oid"])
            return self._tell(Told(200, body=b"{}"))
        return self._object(route.rpartition("/")[2], body)

    def _is_signed_in(self) -> bool:
        if self.server.login is None or "?signed" in self.path:
            return True
        name, password = self.server.login
        expected = base64.b64encode(f"{name}:{password}".encode()).decode()
        return self.headers.get("Authorization") == f"Basic {expected}"

    def _batch(self, asked: dict[str, Any]) -> None:
        if len(asked["objects"]) > self.server.max_batch:
            return self._tell(Told(413, body=b'{"message": "too many"}'))
        entries = [self._entry(asked["operation"], entry["oid"], entry["size"]) for entry in asked["objects"]]
        return self._tell(Told(200, body=json.dumps({"transfer": "basic", "objects": entries}).encode()))

    def _entry(self, operation: str, oid: str, size: int) -> dict[str, Any]:
        server = self.server
        entry: dict[str, Any] = {"oid": oid, "size": size}
        held = oid in server.objects
        if operation == "download" and not held:
            return {**entry, "error": {"code": 404, "message": "there is none"}}
        if operation == "upload" and held:
            return entry
        action: dict[str, Any] = {"href": f"{server.url}/objects/{len(server.requests)}/{oid}", "header": {}}
        if server.expires_in is not None:
            action["expires_in"] = server.expires_in
        if server.expires_at is not None:
            action["expires_at"] = server.expires_at
        actions = {operation: action}
        if operation == "upload" and server.has_verify:
            actions["verify"] = {"href": f"{server.url}/verify"}
        return {**entry, "actions": actions}

    def _object(self, oid: str, body: bytes) -> None:
        server = self.server
        if server.counted_uses:
            if self.path in server.uses:
                return self._tell(Told(403, body=b'{"message": "the action is over"}'))
            server.uses.add(self.path)
        if self.command == "PUT":
            server.objects[oid] = body
            return self._tell(Told(200))
        if oid not in server.objects:
            return self._tell(Told(404))
        data, status, headers = server.objects[oid], 200, {}
        asked = self.headers.get("Range")
        if asked is not None and server.takes_ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            told = 1 if server.wrong_ranges else start
            status, headers = 206, {"Content-Range": f"bytes {told}-{len(data) - 1}/{len(data)}"}
            data = data[told:]
        if server.breaks:
            left = server.breaks.popleft()
            self._head(status, {**headers, "Content-Length": str(len(data))})
            self.wfile.write(data[:left])
            self.wfile.flush()
            self.close_connection = True
            return None
        return self._tell(Told(status, headers, data))

    def _locks(self) -> None:
        start = int(self.path.partition("cursor=")[2] or 0)
        page = self.server.locks[start : start + self.server.page]
        rest = start + self.server.page
        more = {"next_cursor": str(rest)} if rest < len(self.server.locks) else {}
        self._tell(Told(200, body=json.dumps({"locks": page, **more}).encode()))

    def _tell(self, told: Told) -> None:
        self._head(told.status, {**told.headers, "Content-Length": str(len(told.body))})
        self.wfile.write(told.body)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """Run one."""
    server = ScriptedServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
