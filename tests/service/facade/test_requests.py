"""Rules that all requests share: dialects, the order of the checks, unknown addresses, request ids."""

import json

import httpx
import pytest

from services.facade.web.media_types import DIALECTS, GENERIC, GIT_LFS, Dialect
from tests.service.facade.conftest import Place
from tests.support.http import basic
from tests.support.waiting import STEP_SECONDS

OID = "a" * 64
GOOD = json.dumps({"operation": "download", "objects": []}).encode()


async def _post(
    place: Place, headers: dict[str, str], path: str = "objects/batch", content: bytes = GOOD
) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS, headers={"Accept": "*/*"}) as http:
        return await http.post(f"{place.base_url}/{path}", content=content, headers=headers)


def _token(place: Place, user: str = "alice") -> str:
    return basic(user, place.inner.tokens[user])


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.media_type)
@pytest.mark.parametrize("by", ["accept", "content type"])
async def test_success_and_error_are_in_the_callers_dialect(place: Place, dialect: Dialect, by: str) -> None:
    """As Accept says, else as Content-Type does (client-13)."""
    headers = {"Authorization": _token(place), "Content-Type": f"{dialect.media_type}; charset=utf-8"}
    if by == "accept":
        headers |= {"Content-Type": GENERIC.media_type, "Accept": dialect.media_type}
    good = await _post(place, headers)
    bad = await _post(place, headers, content=b"{")
    assert (good.status_code, bad.status_code) == (200, 400)
    assert good.headers["content-type"] == bad.headers["content-type"] == dialect.media_type


@pytest.mark.parametrize("path", ["objects/batch", "locks", "locks/verify", "locks/1/unlock"])
async def test_the_checks_have_one_order(place: Place, path: str) -> None:
    """406, 401, 415, 413, 400, 422, then the access."""
    content = b"{" + b" " * 11 * 1024**2
    headers = {"Accept": "text/html", "Authorization": "x", "Content-Type": "text/plain"}
    better = [{"Accept": "*/*"}, {"Authorization": _token(place)}, {"Content-Type": GIT_LFS.media_type}]
    for status in (406, 401, 415):
        assert (await _post(place, headers, path, content)).status_code == status
        headers |= better.pop(0)
    assert (await _post(place, headers, path, content)).status_code == 413
    assert (await _post(place, headers, path, b"{")).status_code == 400
    place.name = "studio/unknown"
    assert (await _post(place, headers, path, b'{"ref": 5}')).status_code == 422
    fit = b'{"operation": "upload", "objects": [], "path": "a"}'
    assert (await _post(place, headers, path, fit)).status_code == (404 if path == "objects/batch" else 403)


@pytest.mark.parametrize(
    "authorization",
    ["", "Basic", "Basic !!!", "Basic YWxpY2U=", "Bearer", "Bearer nonsense", "Digest x", basic("alice", "wrong")],
)
async def test_bad_credentials_are_401_everywhere(place: Place, authorization: str) -> None:
    """Whatever the repository, with all challenges, as its Accept names no media type."""
    for name in (place.name, "studio/unknown"):
        place.name = name
        response = await _post(place, {"Authorization": authorization, "Content-Type": GENERIC.media_type})
        assert response.status_code == 401
        assert response.headers["blob-authenticate"] == 'Basic realm="Towpath"'
        assert response.headers["lfs-authenticate"] == 'Basic realm="Towpath"'
        assert response.headers["www-authenticate"] == 'Basic realm="Towpath"'


async def test_a_token_is_taken_in_every_form(place: Place) -> None:
    """Bearer, or Basic under any user name, also beside a bad header."""
    token = place.inner.tokens["alice"]
    for headers in (
        [("Authorization", f"Bearer {token}")],
        [("Authorization", basic("whoever", token))],
        [("Authorization", "Basic YTpi"), ("Authorization", f"Bearer {token}")],
        [("Authorization", f"Basic YTpi, Digest realm=x, Bearer {token}")],
    ):
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
            response = await http.post(
                f"{place.base_url}/objects/batch",
                content=GOOD,
                headers=[*headers, ("Content-Type", GENERIC.media_type)],
            )
        assert response.status_code == 200


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.media_type)
async def test_unknown_addresses_and_methods_have_the_error_body(place: Place, dialect: Dialect) -> None:
    """404, and 405 with what is allowed."""
    rows = [
        ("GET", "", 404, None),
        ("GET", "objects", 404, None),
        ("GET", "objects/batch", 405, "POST"),
        ("PUT", "objects/batch", 405, "POST"),
        ("DELETE", f"objects/{OID}", 405, "GET, HEAD, OPTIONS, PATCH, POST, PUT"),
        ("TRACE", f"objects/{OID}", 405, "GET, HEAD, OPTIONS, PATCH, POST, PUT"),
        ("GET", f"objects/{OID[1:]}", 404, None),
        ("GET", "objects/..%2f..%2fetc%2fpasswd", 404, None),
        ("DELETE", "locks", 405, "GET, POST"),
        ("GET", "locks/verify", 405, "POST"),
        ("GET", "locks/1/unlock", 405, "POST"),
        ("POST", "locks/", 404, None),
    ]
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS, headers={"Accept": dialect.media_type}) as http:
        for method, path, status, allowed in rows:
            response = await http.request(method, f"{place.base_url}/{path}")
            assert (response.status_code, response.headers.get("allow")) == (status, allowed), (method, path)
            assert response.headers["content-type"] == dialect.media_type
            body = response.json()
            assert body["message"]
            assert body["request_id"] == response.headers["x-request-id"]
        health = await http.post(f"{place.facade.origin}/healthz")
        assert (health.status_code, health.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(("offered", "adopted"), [("abc-1._Z", True), ("x" * 65, False), ("a b", False), ("", False)])
async def test_a_request_id_is_adopted_or_made(place: Place, offered: str, *, adopted: bool) -> None:
    """It is in the header of every answer, and in the body of errors (trap-34)."""
    first = await _post(place, {"X-Request-Id": offered}, content=b"{")
    second = await _post(place, {"X-Request-Id": offered}, content=b"{")
    assert (first.headers["x-request-id"] == offered) is adopted
    assert (first.headers["x-request-id"] == second.headers["x-request-id"]) is adopted
    assert first.json()["request_id"] == first.headers["x-request-id"]


async def test_the_documentation_is_named_where_it_is_configured(place: Place) -> None:
    """In every error body; the realm too can be chosen."""
    inner = place.inner
    url = "https://help.example/towpath"
    async with (
        inner.running_facade(documentation_url=url, realm="Film") as facade,
        httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http,
    ):
        response = await http.get(f"{facade.origin}/{place.name}/locks")
        assert response.json()["documentation_url"] == url
        assert response.headers["lfs-authenticate"] == 'Basic realm="Film"'
        assert (await http.get(f"{facade.origin}/x")).json()["documentation_url"] == url


async def test_health_tells_of_each_service(place: Place) -> None:
    """200 as all of them serve (trap-34)."""
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        ready = await http.get(f"{place.facade.origin}/readyz")
        alive = await http.get(f"{place.facade.origin}/healthz")
    assert (ready.status_code, alive.status_code) == (200, 200)
    assert ready.json() == {"status": "ready", "services": {"storage": "serving", "locks": "serving"}}
