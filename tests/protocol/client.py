"""A client of the interface that a test steers in every detail, and that checks what every answer must have."""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx

from services.conformance.blobs import Blob
from services.conformance.dialects import GENERIC, Dialect
from tests.protocol.answers import check
from tests.support.waiting import STEP_SECONDS

Action = Mapping[str, Any]
Headers = Iterable[tuple[str, str]]


class PublicAddress(httpx.HTTPTransport):
    """The proxy that passes requests to a public address on to the stack behind it."""

    def __init__(self, address: str, origin: str) -> None:
        super().__init__()
        self._prefix = httpx.URL(address).raw_path
        self._origin = httpx.URL(origin)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request on."""
        request.url = self._origin.copy_with(raw_path=request.url.raw_path.removeprefix(self._prefix))
        return super().handle_request(request)


def new_http(mounts: Mapping[str, httpx.BaseTransport] | None = None) -> httpx.Client:
    """Return an HTTP client that adds no header of its own and follows no redirect."""
    http = httpx.Client(timeout=STEP_SECONDS, limits=httpx.Limits(max_connections=100), mounts=mounts)
    http.headers.clear()
    return http


def basic(user: str, password: str, encoding: str = "utf-8") -> str:
    """Return the value of an Authorization header of scheme Basic."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode(encoding)).decode()


@dataclass(frozen=True)
class Client:
    """Somebody at the base address of a repository, in one of the dialects.

    Every request method returns the answer, checked by `answers.check` in the dialect of this client.
    """

    http: httpx.Client
    base_url: str
    authorization: str | None = None
    dialect: Dialect = GENERIC

    def speaking(self, dialect: Dialect) -> "Client":
        """Return the same somebody in another dialect."""
        return replace(self, dialect=dialect)

    def at(self, base_url: str) -> "Client":
        """Return the same somebody at another base address."""
        return replace(self, base_url=base_url)

    def showing(self, authorization: str | None) -> "Client":
        """Return a client that sends this Authorization header, or none."""
        return replace(self, authorization=authorization)

    # Any request

    def send(self, method: str, url: httpx.URL | str, *, headers: Headers = (), content: Any = None) -> httpx.Response:  # noqa: ANN401 - what httpx takes
        """Send exactly this, and return the checked answer."""
        # A header is bytes on the wire; a test may write any of them.
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return check(self.http.request(method, url, headers=raw, content=content), self.dialect)

    def headers(self, *, body: bool) -> list[tuple[str, str]]:
        """Return the headers that the protocol asks for."""
        headers = [("Accept", self.dialect.media_type)]
        if body:
            headers.append(("Content-Type", self.dialect.media_type))
        if self.authorization is not None:
            headers.append(("Authorization", self.authorization))
        return headers

    def post(self, path: str, body: object) -> httpx.Response:
        """POST JSON, or bytes as they are, to an endpoint of the repository."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", f"{self.base_url}{path}", headers=self.headers(body=True), content=content)

    # The endpoints

    def batch(self, operation: str, *objects: object, **fields: object) -> httpx.Response:
        """Ask for actions on objects; `fields` are further members of the body."""
        return self.post("/objects/batch", {"operation": operation, "objects": list(objects), **fields})

    def lock(self, path: object, **fields: object) -> httpx.Response:
        """Create a lock."""
        return self.post("/locks", {"path": path, **fields})

    def locks(self, query: str = "", **values: object) -> httpx.Response:
        """List locks, by a query string as it is or by its values."""
        url = httpx.URL(f"{self.base_url}/locks")
        if query or values:
            url = url.copy_with(query=query.encode() or str(httpx.QueryParams(values)).encode())  # type: ignore[arg-type] # any value that str takes
        return self.send("GET", url, headers=self.headers(body=False))

    def verify_locks(self, **fields: object) -> httpx.Response:
        """List locks split by owner."""
        return self.post("/locks/verify", fields)

    def unlock(self, lock_id: str, **fields: object) -> httpx.Response:
        """Delete a lock."""
        return self.post(f"/locks/{lock_id}/unlock", fields)

    # The actions

    def get(self, action: Action, *headers: tuple[str, str], method: str = "GET") -> httpx.Response:
        """Do a download action."""
        return self.send(method, action["href"], headers=[*action.get("header", {}).items(), *headers])

    def put(self, action: Action, content: Any, *headers: tuple[str, str]) -> httpx.Response:  # noqa: ANN401 - what httpx takes
        """Do an upload action, as octet-stream unless `headers` has another Content-Type."""
        own = {name.lower() for name, _ in headers}
        default = [] if "content-type" in own else [("Content-Type", "application/octet-stream")]
        return self.send(
            "PUT", action["href"], headers=[*action.get("header", {}).items(), *default, *headers], content=content
        )

    def verify(self, action: Action, body: object, *headers: tuple[str, str]) -> httpx.Response:
        """Do a verify action."""
        return self.send(
            "POST",
            action["href"],
            headers=[
                *action.get("header", {}).items(),
                ("Accept", self.dialect.media_type),
                ("Content-Type", self.dialect.media_type),
                *headers,
            ],
            content=body if isinstance(body, bytes) else json.dumps(body).encode(),
        )

    # What many tests begin with

    def entry(self, operation: str, blob: Blob) -> dict[str, Any]:
        """Ask for the actions of one object and return its entry."""
        answer = self.batch(operation, blob.entry)
        assert answer.status_code == 200, answer.text
        (entry,) = answer.json()["objects"]
        return dict(entry)

    def action(self, name: str, blob: Blob) -> dict[str, Any]:
        """Return the action `download`, `upload` or `verify` of an object."""
        return dict(self.entry("download" if name == "download" else "upload", blob)["actions"][name])

    def upload(self, blob: Blob) -> Blob:
        """Upload an object as a client does: batch, PUT, verify."""
        actions = self.entry("upload", blob).get("actions", {})
        if actions:
            assert self.put(actions["upload"], blob.content).status_code == 200
            assert self.verify(actions["verify"], blob.entry).status_code == 200
        return blob

    def holds(self, blob: Blob) -> bool:
        """Tell whether the repository holds an object, by a download batch."""
        return "actions" in self.entry("download", blob)
