"""Health, and a true description of the service (docs/protocol.md, "Outages, health and description"; trap-34)."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.protocol.inner import running_facade
from tests.support.sources import fail_with
from tests.support.stack import Stack

ENDPOINTS = {
    ("post", "/{repository}/objects/batch"): {200, 400, 401, 403, 404, 406, 413, 415, 422, 429, 501, 507, 509},
    ("get", "/{repository}/objects/{oid}"): {200, 206, 403, 404, 410, 416, 429, 509},
    ("head", "/{repository}/objects/{oid}"): {200, 403, 404, 410},
    ("patch", "/{repository}/objects/{oid}"): {204, 400, 403, 404, 408, 409, 410, 412, 415, 423, 429, 501, 507, 509},
    ("options", "/{repository}/objects/{oid}"): {204, 404, 429},
    ("put", "/{repository}/objects/{oid}"): {200, 400, 403, 410, 429, 507, 509},
    ("post", "/{repository}/objects/{oid}"): {200, 400, 403, 404, 410, 413},
    ("post", "/{repository}/objects/retain"): {200, 401, 403, 404, 406, 408, 409, 413, 415, 422, 429},
    ("post", "/{repository}/locks"): {201, 400, 401, 403, 406, 409, 413, 415, 422, 429},
    ("get", "/{repository}/locks"): {200, 304, 401, 403, 406, 422, 429},
    ("get", "/{repository}/locks/events"): {200, 401, 403, 406, 429},
    ("get", "/{repository}/locks/history"): {200, 401, 403, 406, 422, 429},
    ("post", "/{repository}/locks/verify"): {200, 400, 401, 403, 406, 413, 415, 422, 429},
    ("post", "/{repository}/locks/batch/lock"): {200, 201, 400, 401, 403, 406, 409, 413, 415, 422, 429},
    ("post", "/{repository}/locks/batch/unlock"): {200, 400, 401, 403, 406, 409, 413, 415, 422, 429},
    ("post", "/{repository}/locks/{lock_id}/unlock"): {200, 400, 401, 403, 404, 406, 413, 415, 422, 429},
    ("post", "/{repository}/locks/{lock_id}/steal"): {201, 400, 401, 403, 404, 406, 409, 413, 415, 422, 429},
}
ANYWHERE = {500, 502, 503, 504}


@pytest.fixture(scope="module")
def description(stack: Stack, http: httpx.Client) -> dict[str, Any]:
    """Return the description that the facade serves of itself."""
    answer = http.get(f"{stack.origin}/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    described: dict[str, Any] = answer.json()
    return described


def test_healthz_answers_as_long_as_the_facade_lives(stack: Stack, http: httpx.Client) -> None:
    """A facade that serves requests must not look dead because of an inner service."""
    answer = http.get(f"{stack.origin}/healthz")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"status": "alive"}


def test_readyz_looks_at_the_inner_services(stack: Stack, http: httpx.Client) -> None:
    """A readiness check that ignores the inner services would attract requests that must fail (trap-34)."""
    answer = http.get(f"{stack.origin}/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ready", "services": {"storage": "serving", "locks": "serving"}}


@pytest.fixture(scope="module")
def ill() -> Iterator[str]:
    """The origin of a facade whose inner services have no health service."""
    with running_facade() as (origin, _):
        yield origin


def test_readyz_is_503_where_an_inner_service_does_not_serve(http: httpx.Client, ill: str) -> None:
    """An inner service without a health service counts as not serving, so the facade gets no requests (trap-34)."""
    answer = http.get(f"{ill}/readyz")
    assert answer.status_code == 503
    assert answer.json()["status"] == "not ready"
    assert http.get(f"{ill}/healthz").status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
@pytest.mark.parametrize("well", [True, False], ids=["well", "ill"])
def test_health_answers_head_as_it_answers_get(
    http: httpx.Client, stack: Stack, ill: str, path: str, *, well: bool
) -> None:
    """Load balancers and `wget --spider` ask by HEAD, and call a server down that answers 405. POST is 405."""
    origin = stack.origin if well else ill
    whole, head = http.get(f"{origin}{path}"), http.head(f"{origin}{path}")
    assert head.status_code == whole.status_code == (200 if well or path == "/healthz" else 503)
    own = {"date", "x-request-id"}
    assert {name: text for name, text in head.headers.items() if name not in own} == {
        name: text for name, text in whole.headers.items() if name not in own
    }
    assert head.content == b""
    assert http.post(f"{origin}{path}").headers["allow"] == "GET, HEAD"


def test_every_endpoint_is_described_with_its_statuses(description: dict[str, Any]) -> None:
    """Clients rely on the description, so it names every status that can be answered (protocol: Endpoints)."""
    paths = description["paths"]
    described = {key: paths.get(key[1], {}).get(key[0], {}).get("responses", {}) for key in ENDPOINTS}
    missing = {key: (ENDPOINTS[key] | ANYWHERE) - set(map(int, described[key])) for key in ENDPOINTS}
    fail_with(f"{method} {path}: {statuses}" for (method, path), statuses in missing.items() if statuses)


def test_nothing_else_is_described(description: dict[str, Any]) -> None:
    """The description must be true, so every operation in it is one of the protocol's, or of ours, or health."""
    operations = {(method, path) for path, methods in description["paths"].items() for method in methods}
    health = {(method, path) for method in ("get", "head") for path in ("/healthz", "/readyz")}
    sign_in = {("get", "/.well-known/towpath"), ("post", "/-/token"), ("post", "/-/revoke")}
    assert operations == ENDPOINTS.keys() | health | sign_in


def test_every_body_is_described_in_both_media_types(description: dict[str, Any]) -> None:
    """Both dialects are one interface, so the description names both media types for every body."""
    both = {"application/vnd.blob+json", "application/vnd.git-lfs+json"}
    for method, path in ENDPOINTS:
        operation = description["paths"][path][method]
        for status, response in operation["responses"].items():
            if int(status) >= 400 and method != "head":
                assert response["content"].keys() == both, (method, path, status)
        if method == "post":
            # A client of the calls for many locks knows neither media type.
            plain = {"application/json"} if "/batch/" in path else set()
            expected = {"application/octet-stream"} if path.endswith("/retain") else both | plain
            assert operation["requestBody"]["content"].keys() == expected, path


def test_an_entry_of_the_answer_always_has_its_oid_and_size(description: dict[str, Any]) -> None:
    """Clients match an entry by its oid and size, so the schema requires both."""
    assert {"oid", "size"} <= set(description["components"]["schemas"]["ObjectAnswer"].get("required", []))
