"""A client of the interface that a case steers in every detail."""

import asyncio
import base64
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx

from services.conformance.answer import Answer
from services.conformance.blobs import Blob
from services.conformance.dialects import Dialect
from services.conformance.ledger import Ledger
from services.conformance.outcome import Blocked, Finding, NotApplicable
from services.conformance.redaction import Redactor

Headers = Iterable[tuple[str, str]]
_MAX_ANSWER_BYTES = 8 * 1024 * 1024
_MAX_CONNECTIONS = 16
_OPTIONAL = {
    413: "the server finds the request too large",
    429: "the server limits the rate of requests",
    501: "the server does not implement the request",
    507: "the server has no room",
    509: "the bandwidth is used up",
}
_MAX_RETRY_SECONDS = 10
_ATTEMPTS = 3


@dataclass(frozen=True)
class Credentials:
    """A user and the password, or token."""

    user: str
    password: str = field(repr=False)

    @property
    def authorization(self) -> str:
        """The value of the Authorization header of scheme Basic."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


@dataclass(frozen=True)
class Action:
    """One action of an entry of a batch answer."""

    href: str
    header: dict[str, str]
    is_authenticated: bool
    """As the entry says: a client then looks for no credentials."""


def new_http(seconds: float) -> httpx.AsyncClient:
    """Return an HTTP client that adds no header of its own, keeps no cookie and follows no redirect.

    Each operation on a connection has so many seconds. Proxies and authorities are those of the environment.
    """
    http = httpx.AsyncClient(timeout=seconds, limits=httpx.Limits(max_connections=_MAX_CONNECTIONS))
    http.headers.clear()
    http.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return http


@contextmanager
def preparing(step: str) -> Iterator[None]:
    """Turn a finding within the block into `Blocked`: the step is another case's concern."""
    try:
        yield
    except Finding as finding:
        raise Blocked(step, finding) from finding


@dataclass(frozen=True)
class Client:
    """A user, or nobody, at the base address of a repository, in one of the dialects.

    Requests raise `httpx.HTTPError` without an answer, and `NotApplicable` for a status that a server may have for
    reasons of its own: 413, 429, 501, 507 and 509.
    """

    http: httpx.AsyncClient
    base_url: str
    dialect: Dialect
    ledger: Ledger
    redactor: Redactor
    credentials: Credentials | None = None
    ref: str | None = None
    """The ref that every request names, if any."""

    def anonymous(self) -> "Client":
        """Return a client without credentials."""
        return replace(self, credentials=None)

    # Any request

    async def send(self, method: str, url: str, *, headers: Headers = (), content: bytes | None = None) -> Answer:
        """Send exactly this, and return the answer."""
        # A header is bytes on the wire; a user's name in one may be any.
        raw = [(name.encode(), value.encode()) for name, value in headers]
        for attempt in range(1, _ATTEMPTS + 1):
            answer = await self._send_once(method, url, raw, content)
            seconds = answer.headers.get("retry-after", "")
            if answer.status != 429 or attempt == _ATTEMPTS or not seconds.isdecimal():
                break
            if int(seconds) > _MAX_RETRY_SECONDS:
                break
            await asyncio.sleep(int(seconds))
        if answer.status in _OPTIONAL:
            raise NotApplicable(f"{_OPTIONAL[answer.status]} ({answer.status})")
        return answer

    async def _send_once(
        self, method: str, url: str, headers: list[tuple[bytes, bytes]], content: bytes | None
    ) -> Answer:
        request = f"{method} {self._shown(url)} {self.redactor.body(content or b'')}".rstrip()
        async with self.http.stream(method, url, headers=headers, content=content) as response:
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _MAX_ANSWER_BYTES:
                    raise Finding(f"an answer of at most {_MAX_ANSWER_BYTES} bytes", "a larger one", request)
        return Answer(request, response.status_code, response.headers, bytes(body), self.redactor)

    def _shown(self, url: str) -> str:
        return self.redactor.text(url[len(self.base_url) :]) if self.is_own(url) else self.redactor.url(url)

    def is_own(self, url: str) -> bool:
        """Tell whether a URL is one of the endpoints of the repository."""
        return url.startswith(f"{self.base_url}/")

    def headers(self, *, body: bool) -> list[tuple[str, str]]:
        """Return the headers that the interface asks for."""
        headers = [("Accept", self.dialect.media_type)]
        if body:
            headers.append(("Content-Type", self.dialect.media_type))
        if self.credentials is not None:
            headers.append(("Authorization", self.credentials.authorization))
        return headers

    async def post(self, path: str, body: object, *, content_type: str = "", accept: str = "") -> Answer:
        """POST JSON, or bytes as they are, to an endpoint of the repository."""
        changed = {"Content-Type": content_type, "Accept": accept}
        headers = [(name, changed.get(name) or value) for name, value in self.headers(body=True)]
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.send("POST", f"{self.base_url}{path}", headers=headers, content=content)

    # The endpoints

    async def batch(self, operation: str, *objects: object, **fields: object) -> Answer:
        """Ask for actions on objects; `fields` are further members of the body."""
        return await self.post(
            "/objects/batch", {"operation": operation, "objects": list(objects), **self._ref(), **fields}
        )

    async def lock(self, path: str, **fields: object) -> Answer:
        """Create a lock, which the ledger notes."""
        return await self.ledger.create(self.post("/locks", {"path": path, **self._ref(), **fields}), path, self)

    async def lock_without_path(self) -> Answer:
        """Ask for a lock and name no path; a lock that a server makes of that is noted like any other."""
        return await self.ledger.create(self.post("/locks", self._ref()), "", self)

    async def locks(self, **query: str | int) -> Answer:
        """List locks."""
        named = {**({"refspec": self.ref} if self.ref else {}), **query}
        text = f"?{urlencode(named, quote_via=quote)}" if named else ""
        return await self.send("GET", f"{self.base_url}/locks{text}", headers=self.headers(body=False))

    async def verify_locks(self, **fields: object) -> Answer:
        """List locks split by owner."""
        return await self.post("/locks/verify", {**self._ref(), **fields})

    async def unlock(self, lock_id: str, **fields: object) -> Answer:
        """Delete a lock."""
        answer = await self.post(f"/locks/{quote(lock_id, safe='')}/unlock", {**self._ref(), **fields})
        if answer.is_success:
            self.ledger.forget(lock_id)
        return answer

    def _ref(self) -> dict[str, object]:
        return {"ref": {"name": self.ref}} if self.ref else {}

    # The entries and actions of a batch

    async def one(self, operation: str, asked: Blob | dict[str, Any]) -> tuple[Answer, dict[str, Any]]:
        """Ask for the actions of one object. Return the answer, which is 200, and the one entry that it has."""
        answer = await self.batch(operation, asked.entry if isinstance(asked, Blob) else asked)
        answer.expect_status(200)
        entries = answer.objects(answer.body(), "objects")
        answer.expect(len(entries) == 1, "one entry", len(entries))
        return answer, entries[0]

    async def entry(self, operation: str, asked: Blob | dict[str, Any]) -> dict[str, Any]:
        """Ask for the actions of one object, and return its entry."""
        _, entry = await self.one(operation, asked)
        return entry

    async def store(self, blob: Blob) -> Answer:
        """Upload an object as clients do: batch, PUT, and verify, if offered. Return the answer to the PUT."""
        entry = await self.entry("upload", blob)
        answer = await self.put(action_of(entry, "upload"), blob.content)
        if entry["actions"].get("verify"):
            await self.verify(action_of(entry, "verify"), blob.entry)
        return answer

    async def action(self, name: str, blob: Blob) -> Action:
        """Return the action `download`, `upload` or `verify` of an object.

        Raises `NotApplicable` if there is no verify action, which is optional.
        """
        entry = await self.entry("download" if name == "download" else "upload", blob)
        return action_of(entry, name)

    async def perform(self, action: Action, method: str, content: bytes | None = None, headers: Headers = ()) -> Answer:
        """Send the request of an action as clients do; `headers` come after those of the action.

        Credentials are sent only where clients look them up: the entry is not authenticated, the action has no
        Authorization of its own, the URL is on the server of the repository, and the answer without them is 401.
        Raises `Blocked` if the href is no absolute URL.
        """
        with preparing("the request of an action"):
            if not action.href.startswith(("http://", "https://")):
                raise Finding("an absolute URL as its href", self.redactor.url(action.href))
        sent = [*action.header.items(), *headers]
        answer = await self.send(method, action.href, headers=sent, content=content)
        is_carried = action.is_authenticated or "authorization" in {name.lower() for name in action.header}
        if answer.status != 401 or is_carried or self.credentials is None or not self._is_near(action.href):
            return answer
        sent.append(("Authorization", self.credentials.authorization))
        return await self.send(method, action.href, headers=sent, content=content)

    def _is_near(self, url: str) -> bool:
        return urlsplit(url)[:2] == urlsplit(self.base_url)[:2]

    async def get(self, action: Action, *headers: tuple[str, str]) -> Answer:
        """Do a download action."""
        return await self.perform(action, "GET", headers=headers)

    async def put(self, action: Action, content: bytes, content_type: str = "application/octet-stream") -> Answer:
        """Do an upload action, by its own Content-Type if it has one. The ledger notes bytes that are accepted."""
        own = {name.lower() for name in action.header}
        headers = [] if "content-type" in own else [("Content-Type", content_type)]
        answer = await self.perform(action, "PUT", content, headers)
        if answer.is_success:
            blob = Blob(content)
            self.ledger.objects[blob.oid] = blob.size
        return answer

    async def verify(self, action: Action, body: object, *, charset: str = "") -> Answer:
        """Do a verify action."""
        media_type = self.dialect.media_type
        headers = [("Accept", media_type), ("Content-Type", media_type + charset)]
        return await self.perform(action, "POST", json.dumps(body).encode(), headers)


def action_of(entry: dict[str, Any], name: str) -> Action:
    """Return an action of an entry. Raises a finding if it is missing or has another shape."""
    actions = entry.get("actions")
    found = actions.get(name) if isinstance(actions, dict) else None
    if found is None and name == "verify" and isinstance(actions, dict):
        raise NotApplicable("the server has no verify action, which is optional")
    if not isinstance(found, dict) or not isinstance(found.get("href"), str):
        raise Finding(f"an action {name} with an href", _kinds(entry))
    header = found.get("header")
    if header is None:
        header = {}
    if not isinstance(header, dict) or not all(isinstance(value, str) for value in header.values()):
        raise Finding(f"the header of the action {name} as an object of strings", type(header).__name__)
    return Action(found["href"], header, entry.get("authenticated") is True)


def bare(action: Action) -> Action:
    """Return an action without its headers, for which no credentials are looked up."""
    return replace(action, header={}, is_authenticated=True)


def offered_download(answer: Answer) -> Action | None:
    """Return the download action in the answer to a batch for one object, if it has one."""
    entries = answer.body().get("objects") if answer.is_success else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("actions"), dict) and "download" in entry["actions"]:
            return action_of(entry, "download")
    return None


def _kinds(entry: dict[str, Any]) -> str:
    """Return what an entry has, without the headers of its actions."""
    actions = entry.get("actions")
    names = ", ".join(actions) if isinstance(actions, dict) else repr(actions)
    return f"an entry with the actions {names} and the error {entry.get('error')!r}"
