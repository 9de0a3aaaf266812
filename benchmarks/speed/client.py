"""Requests of the loads, in the dialect that all servers of this kind speak."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx

from benchmarks.speed.blobs import Blob

MEDIA_TYPE = "application/vnd.git-lfs+json"
_PORTION = 100
"""The number of objects that git-lfs asks for at once."""
_CONNECTIONS = 8
_SECONDS = 120.0


@dataclass(frozen=True)
class Site:
    """A server that runs: where it is reached, what shows it who asks, and its first process."""

    origin: str
    base_url: str
    pid: int
    headers: Mapping[str, str] = field(default_factory=dict)
    login: tuple[str, str] | None = None
    """The user and password that `headers` show, for clients that make headers themselves."""


@dataclass(frozen=True)
class Request:
    """One HTTP request."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""


def batch(site: Site, operation: str, objects: Sequence[Blob]) -> Request:
    """Return the request for the actions of objects."""
    return post(
        site,
        "objects/batch",
        operation=operation,
        transfers=["basic"],
        objects=[{"oid": each.oid, "size": each.size} for each in objects],
    )


def post(site: Site, path: str, /, **body: object) -> Request:
    """Return a request with a JSON body, to a path below the base address."""
    headers = {**site.headers, "Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE}
    return Request("POST", f"{site.base_url}/{path}", headers, json.dumps(body).encode())


def get(site: Site, path: str) -> Request:
    """Return a request without a body, to a path below the base address."""
    return Request("GET", f"{site.base_url}/{path}", {**site.headers, "Accept": MEDIA_TYPE})


def ask(request: Request) -> httpx.Response:
    """Send a request once. Raises `httpx.HTTPError` where it fails, or is refused."""
    with connections() as client:
        return send(client, request)


def connections() -> httpx.Client:
    """Return connections to servers of this host, whatever proxies the environment names."""
    return httpx.Client(timeout=_SECONDS, trust_env=False)


def send(client: httpx.Client, request: Request) -> httpx.Response:
    """Send a request over kept connections. Raises `httpx.HTTPError` where it fails, or is refused."""
    answer = client.request(request.method, request.url, headers=dict(request.headers), content=request.body)
    return answer.raise_for_status()


def actions(site: Site, operation: str, objects: Sequence[Blob]) -> list[Request]:
    """Return how each object is transferred, without the bytes of uploads. Raises where one cannot be."""
    found = []
    with connections() as client:
        for first in range(0, len(objects), _PORTION):
            answer = send(client, batch(site, operation, objects[first : first + _PORTION])).json()
            found += [_action(site, entry, operation) for entry in answer["objects"]]
    assert len(found) == len(objects)
    return found


def _action(site: Site, entry: Mapping[str, object], operation: str) -> Request:
    told = entry.get("actions")
    assert isinstance(told, dict) and operation in told, f"no {operation} in {entry}"  # noqa: PT018 - one condition
    action = told[operation]
    method = "GET" if operation == "download" else "PUT"
    # A server that leaves it to the client to show who it is does not say that the action is authenticated.
    headers = {**({} if entry.get("authenticated") else site.headers), **(action.get("header") or {})}
    if method == "PUT":
        headers["Content-Type"] = "application/octet-stream"
    return Request(method, action["href"], headers)


def upload(site: Site, objects: Sequence[Blob]) -> None:
    """Bring small objects that the server does not hold."""
    with ThreadPoolExecutor(_CONNECTIONS) as threads, connections() as client:

        def put(action: Request, blob: Blob) -> None:
            send(client, Request(action.method, action.url, action.headers, blob.path.read_bytes()))

        list(threads.map(put, actions(site, "upload", objects), objects))
