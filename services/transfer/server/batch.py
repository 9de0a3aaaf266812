"""The batch of another server: what it has, what it lacks, and where the bytes go."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, Field, ValidationError

from services.cli.errors import CommandError
from services.cli.pointers.named import Pointer
from services.common.outbound import are_headers, parse_url
from services.transfer.errors import Interrupted, Kind, ObjectProblem
from services.transfer.retries import required
from services.transfer.server.http import Http, Refused, origin_of

MAX_OBJECTS = 100
"""The number of objects that one request asks about; git-lfs asks about as many."""

Operation = Literal["download", "upload"]

_TOO_LARGE = 413
_MISSING = (404, 410)
_TEMPORARY = (408, 429, 500, 502, 503, 504)
# An action that ends so soon is as good as over.
_MARGIN_SECONDS = 15.0
_EARLIEST_YEAR = 1970


class _Action(BaseModel):
    href: str = Field(max_length=8192)
    header: dict[str, str] | None = None
    expires_at: str | None = None
    expires_in: float | None = None


class _Error(BaseModel):
    code: int = 0
    message: str = ""


class _Entry(BaseModel):
    actions: dict[str, _Action] | None = None
    # The name of `actions` before git-lfs 2.0, which some servers still have.
    links: dict[str, _Action] | None = Field(None, alias="_links")
    error: _Error | None = None


class _Answer(BaseModel):
    transfer: str | None = None
    hash_algo: str | None = None
    objects: list[Any] | None = None


class Action(NamedTuple):
    """An address to read, write or verify an object, with headers; it is good until `ends` of `time.monotonic`."""

    href: str
    headers: Mapping[str, str]
    ends: float

    @property
    def is_over(self) -> bool:
        """True once it is too late for it."""
        return time.monotonic() > self.ends


class Answer(NamedTuple):
    """The actions for each object, by name; there are none for one that is uploaded already. And what is wrong."""

    actions: Mapping[str, Mapping[str, Action]]
    problems: Mapping[str, ObjectProblem]


class BatchClient:
    """The batch below the base URL of a repository."""

    def __init__(self, http: Http, url: str) -> None:
        self._http = http
        self.url = url

    async def ask(self, operation: Operation, pointers: Sequence[Pointer]) -> Answer:
        """Ask about objects, in smaller batches where the server wants that. Raises `CommandError`."""
        try:
            return await required(lambda: self._ask(operation, pointers))
        except Refused as error:
            if error.status == _TOO_LARGE and len(pointers) > 1:
                half = len(pointers) // 2
                first, second = await self.ask(operation, pointers[:half]), await self.ask(operation, pointers[half:])
                return Answer({**first.actions, **second.actions}, {**first.problems, **second.problems})
            raise CommandError(f"{self.url}: {error.message}") from error

    async def _ask(self, operation: Operation, pointers: Sequence[Pointer]) -> Answer:
        asked = {
            "operation": operation,
            "transfers": ["basic"],
            "objects": [{"oid": pointer.oid, "size": pointer.size} for pointer in pointers],
            "hash_algo": "sha256",
        }
        try:
            answer = _Answer.model_validate(await self._http.json("POST", f"{self.url}/objects/batch", asked))
        except ValidationError as error:
            raise CommandError(f"{self.url}: the answer to the batch is none of the protocol") from error
        if answer.transfer not in (None, "", "basic") or answer.hash_algo not in (None, "", "sha256"):
            raise CommandError(f"{self.url}: expected the transfer basic and the hash sha256")
        return self._read(operation, pointers, answer)

    def _read(self, operation: Operation, pointers: Sequence[Pointer], answer: _Answer) -> Answer:
        dictionaries = [entry for entry in answer.objects or () if isinstance(entry, dict)]
        entries = {oid: entry for entry in dictionaries if isinstance(oid := entry.get("oid"), str)}
        actions: dict[str, Mapping[str, Action]] = {}
        problems: dict[str, ObjectProblem] = {}
        for pointer in pointers:
            found = self._read_entry(operation, entries.get(pointer.oid))
            if isinstance(found, ObjectProblem):
                problems[pointer.oid] = found
            else:
                actions[pointer.oid] = found
        return Answer(actions, problems)

    def _read_entry(self, operation: Operation, told: object) -> Mapping[str, Action] | ObjectProblem:
        """Return the actions of an entry, or what is wrong with it. Raises `Interrupted` for an error that passes."""
        if told is None:
            return ObjectProblem(Kind.FAILED, "the server says nothing about it")
        try:
            entry = _Entry.model_validate(told)
            if entry.error is not None:
                message = f"{entry.error.code}: {entry.error.message[:200]}"
                if entry.error.code in _TEMPORARY:
                    raise Interrupted(f"{self.url}: {message}")
                kind = Kind.MISSING if entry.error.code in _MISSING else Kind.FAILED
                return ObjectProblem(kind, f"the server says {message}")
            actions = {name: self._action(action) for name, action in (entry.actions or entry.links or {}).items()}
        except ValidationError:
            return ObjectProblem(Kind.FAILED, "its entry in the answer does not follow the protocol")
        except ValueError as error:
            return ObjectProblem(Kind.FAILED, f"the server answers with {error}")
        # lfs-test-server offers an upload of what it is asked for and does not have.
        if operation == "download" and "download" not in actions:
            return ObjectProblem(Kind.MISSING, "the server does not have it")
        return actions

    def _action(self, action: _Action) -> Action:
        """Return an action, whose address may be relative to that of the batch. Raises ValueError for a bad one."""
        try:
            url = parse_url(action.href, httpx.URL(f"{self.url}/objects/batch"))
        except httpx.InvalidURL:
            url = httpx.URL()
        if url.scheme not in ("http", "https") or not url.host:
            raise ValueError("an address that is not http or https")
        headers = action.header or {}
        if not are_headers(headers):
            raise ValueError("headers that are not of printable ASCII")
        if url.scheme == "http" and self.url.startswith("https://"):
            raise ValueError(f"an address of {origin_of(str(url))}, without TLS")
        href = action.href if urlsplit(action.href).scheme else str(url)
        return Action(href, headers, time.monotonic() + _seconds_of(action) - _MARGIN_SECONDS)


def _seconds_of(action: _Action) -> float:
    """Return for how many seconds an action is good; infinite where the server does not say."""
    if action.expires_in:
        return action.expires_in
    try:
        moment = datetime.fromisoformat(action.expires_at or "")
    except ValueError:
        return float("inf")
    # Go's zero time, which lfs-test-server sends, stands for none.
    if moment.year < _EARLIEST_YEAR:
        return float("inf")
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
