"""The service over plain HTTP, spoken as the protocol writes it: the neutral dialect, one user, one repository."""

import base64
import hashlib
import ssl
from collections.abc import AsyncIterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from tests.support.waiting import STEP_SECONDS

MEDIA_TYPE = "application/vnd.blob+json"


def content(name: str, size: int) -> bytes:
    """Return `size` bytes that no other name has, the same ones at every call."""
    return hashlib.shake_256(name.encode()).digest(size)


def oid_of(data: bytes) -> str:
    """Return the object id of some bytes."""
    return hashlib.sha256(data).hexdigest()


def basic(user: str, token: str) -> str:
    """Return the value of an Authorization header with Basic credentials."""
    return "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()


@dataclass(frozen=True)
class Action:
    """An action of a batch: a URL and headers for one operation on an object."""

    href: str
    header: dict[str, str]

    async def get(self) -> httpx.Response:
        """Perform it as a download, by a connection of its own."""
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
            return await http.get(self.href, headers=self.header)

    async def put(self, body: bytes) -> httpx.Response:
        """Perform it as an upload, by a connection of its own."""
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
            return await http.put(self.href, content=body, headers=self.header)


class Client:
    """One user of one repository, with connections of its own; `ref` goes into every request that takes one."""

    def __init__(
        self,
        base_url: str,
        user: str,
        token: str,
        *,
        ref: str | None = None,
        seconds: float = STEP_SECONDS,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        self.base_url = base_url
        self.user = user
        self.ref = ref
        self._headers = {"Authorization": basic(user, token), "Accept": MEDIA_TYPE}
        self.http = httpx.AsyncClient(
            timeout=seconds,
            trust_env=False,
            verify=verify,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    async def __aenter__(self) -> Self:
        """Return the client itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.http.aclose()

    async def post(self, path: str, /, **body: Any) -> httpx.Response:  # noqa: ANN401 - whatever JSON the test sends
        """POST a JSON body to a path below the base address."""
        if self.ref is not None:
            body["ref"] = {"name": self.ref}
        headers = {**self._headers, "Content-Type": MEDIA_TYPE}
        return await self.http.post(f"{self.base_url}/{path}", json=body, headers=headers)

    async def batch(self, operation: str, *objects: tuple[str, int]) -> httpx.Response:
        """Ask for the actions of objects, each an oid and a size."""
        entries = [{"oid": oid, "size": size} for oid, size in objects]
        return await self.post("objects/batch", operation=operation, objects=entries)

    async def action(self, operation: str, oid: str, size: int) -> Action | None:
        """Return the action for an object, or None where the service offers none; fail where the batch does."""
        response = await self.batch(operation, (oid, size))
        response.raise_for_status()
        action = response.json()["objects"][0].get("actions", {}).get(operation)
        return Action(action["href"], action.get("header", {})) if action else None

    async def offered(self, operation: str, data: bytes) -> Action:
        """Return the action for an object of these bytes; fail where the service offers none."""
        action = await self.action(operation, oid_of(data), len(data))
        assert action is not None, f"no {operation} of {oid_of(data)} is offered"
        return action

    async def put(self, action: Action, body: bytes | AsyncIterable[bytes], size: int) -> httpx.Response:
        """Perform an upload action, with a stated length."""
        headers = {**action.header, "Content-Type": "application/octet-stream", "Content-Length": str(size)}
        return await self.http.put(action.href, content=body, headers=headers)

    async def upload(self, data: bytes, *, body: AsyncIterable[bytes] | None = None) -> httpx.Response:
        """Upload bytes that are not held, as `body` brings them: batch, then PUT, whose answer is returned.

        What went past the service, to the store itself, is verified; where that fails, its answer is returned.
        """
        entry = (oid_of(data), len(data))
        response = await self.batch("upload", entry)
        response.raise_for_status()
        actions = response.json()["objects"][0].get("actions")
        assert actions is not None, f"{entry[0]} is held already"
        href, header = actions["upload"]["href"], actions["upload"].get("header", {})
        answer = await self.put(Action(href, header), data if body is None else body, len(data))
        if answer.status_code != 200 or urlsplit(href).netloc == urlsplit(self.base_url).netloc:
            return answer
        headers = {**actions["verify"]["header"], "Content-Type": MEDIA_TYPE}
        told = {"oid": entry[0], "size": entry[1]}
        verified = await self.http.post(actions["verify"]["href"], json=told, headers=headers)
        return answer if verified.status_code == 200 else verified

    async def download(self, oid: str, size: int) -> httpx.Response:
        """Download an object: batch, then GET, whose answer is returned."""
        action = await self.action("download", oid, size)
        assert action is not None, f"no download of {oid} is offered"
        return await self.http.get(action.href, headers=action.header)

    async def lock(self, path: str) -> httpx.Response:
        """Lock a path."""
        return await self.post("locks", path=path)

    async def unlock(self, lock_id: str, *, force: bool = False) -> httpx.Response:
        """Remove a lock."""
        return await self.post(f"locks/{lock_id}/unlock", force=force)

    async def locks(self, **query: str | int) -> httpx.Response:
        """Ask for one page of locks."""
        return await self.http.get(f"{self.base_url}/locks", params=query, headers=self._headers)

    async def all_locks(self, **query: str | int) -> list[dict[str, Any]]:
        """Return the locks of all pages, in the order in which they came."""
        found: list[dict[str, Any]] = []
        while True:
            response = await self.locks(**query)
            response.raise_for_status()
            page = response.json()
            found += page["locks"]
            if not page.get("next_cursor"):
                return found
            query["cursor"] = page["next_cursor"]
