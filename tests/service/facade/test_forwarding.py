"""A facade behind proxies that it trusts, and in front of callers that claim to be some (trap-33)."""

import httpx
import pytest

from tests.service.facade.conftest import Inner, Place, new_place
from tests.support.facade import RunningFacade
from tests.support.http import MEDIA_TYPE, Client, basic, oid_of
from tests.support.waiting import STEP_SECONDS

DATA = b"behind a proxy"
OUTSIDE = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "lfs.example.org", "X-Forwarded-Prefix": "/lfs"}


@pytest.fixture
async def proxied(behind_proxy: RunningFacade, inner: Inner) -> Place:
    """A repository behind a proxy."""
    return await new_place(behind_proxy, inner)


async def _href(client: Client, **headers: str) -> str:
    client.http.headers.update({name.replace("_", "-"): text for name, text in headers.items()})
    return (await client.offered("upload", DATA)).href


async def test_hrefs_lead_back_to_the_proxy(proxied: Place) -> None:
    """With its scheme, its host and the prefix that it strips."""
    async with proxied.client() as alice:
        href = await _href(alice, **OUTSIDE)
    assert href == f"https://lfs.example.org/lfs/{proxied.name}/objects/{oid_of(DATA)}"


async def test_a_caller_who_is_no_proxy_changes_no_href(place: Place) -> None:
    """Whatever it sends, nobody is trusted by default."""
    async with place.client() as alice:
        href = await _href(alice, **OUTSIDE, X_Forwarded_For="127.0.0.1")
    assert href == f"{place.base_url}/objects/{oid_of(DATA)}"


@pytest.mark.parametrize("host", ["evil example", "a/b", "a@b", "h:123456", '"'])
async def test_a_malformed_host_is_refused(proxied: Place, host: str) -> None:
    """A malformed host must not get into the URL of an action; requests that need no host ignore it."""
    async with proxied.client() as alice:
        alice.http.headers["X-Forwarded-Host"] = host
        refused = await alice.batch("upload", (oid_of(DATA), len(DATA)))
        assert (refused.status_code, "host" in refused.json()["message"]) == (400, True)
        assert (await alice.locks()).status_code == 200


async def test_bad_credentials_are_counted_for_the_client_not_for_the_proxy(inner: Inner) -> None:
    """One who guesses is slowed, others behind the same proxy are told 401 (client-6)."""
    settings = {"trusted_proxies": "127.0.0.1", "failed_logins": "2/minute"}
    async with inner.running_facade(**settings) as facade:
        place = await new_place(facade, inner)
        headers = {"Accept": MEDIA_TYPE, "Authorization": basic("alice", "wrong")}
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS, headers=headers) as http:

            async def status(forwarded_for: str) -> int:
                answer = await http.get(f"{place.base_url}/locks", headers={"X-Forwarded-For": forwarded_for})
                return answer.status_code

            guesses = [await status(f"198.51.100.{n}, 203.0.113.7") for n in range(3)]
            other = await status("203.0.113.8")
    assert guesses == [401, 401, 429]
    assert other == 401


async def _two_locks(place: Place, request_id: str) -> tuple[httpx.Response, httpx.Response]:
    async with place.client() as alice:
        alice.http.headers["X-Request-Id"] = request_id
        return await alice.lock("a/b.psd"), await alice.lock("a/b.psd")


async def test_a_request_that_a_proxy_repeats_is_known(proxied: Place, inner: Inner) -> None:
    """Any facade answers a repeated lock or unlock like the first time, because a proxy may repeat a request."""
    first, second = await _two_locks(proxied, "one-request")
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    lock = first.json()["lock"]
    settings = {"trusted_proxies": "127.0.0.1"}
    async with inner.running_facade(**settings) as another:
        places = (proxied, Place(another, inner, proxied.name, proxied.repository_id))
        for place in places:
            async with place.client() as alice:
                alice.http.headers["X-Request-Id"] = "another-request"
                assert (await alice.lock("a/b.psd")).status_code == 409
        for place in places:
            async with place.client() as alice:
                alice.http.headers["X-Request-Id"] = "unlocking"
                removed = await alice.unlock(lock["id"])
                assert (removed.status_code, removed.json()["lock"]) == (200, lock)
    async with proxied.client("bob", ref="refs/heads/bob") as bob:
        bob.http.headers["X-Request-Id"] = "unlocking"
        assert (await bob.unlock(lock["id"])).status_code == 404


async def test_an_id_of_anybody_else_marks_no_repeat(place: Place) -> None:
    """A client may send one id with all its requests."""
    first, second = await _two_locks(place, "always-the-same")
    assert (first.status_code, second.status_code) == (201, 409)
