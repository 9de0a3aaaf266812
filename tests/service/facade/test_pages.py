"""Sessions of browsers and the forms of the pages, as attackers send them."""

import time
from collections.abc import AsyncIterator, Mapping

import pytest
from towpath.access.v1 import admin_service_pb2 as admin

from tests.service.facade.conftest import Inner, Place, new_place
from tests.support.facade import SIGNING_KEY
from tests.support.forges import StubForge, running_forge
from tests.support.tabs import SESSION, Tab, cookie_of, is_sign_in
from tests.support.waiting import until

OTHER_KEY = "another key that signs nothing outside of these tests"


async def lock_of(place: Place, path: str) -> str:
    """Lock a path for alice, and return the lock's id."""
    async with place.client() as alice:
        made = await alice.lock(path)
        assert made.status_code == 201, made.text
        return str(made.json()["lock"]["id"])


async def owners(place: Place) -> dict[str, str]:
    """Return the owner of each locked path."""
    async with place.client() as alice:
        return {lock["path"]: lock["owner"]["name"] for lock in (await alice.locks()).json()["locks"]}


async def test_the_cookie_of_a_session(place: Place, stranger: Tab) -> None:
    """No script, no other site and no connection without TLS gets it, and nobody reads the token in it."""
    token, begun = place.inner.tokens["alice"], time.monotonic()
    answer = await stranger.sign_in(token, next=f"/{place.name}/locks")
    passed = time.monotonic() - begun
    [cookie] = answer.headers.get_list("set-cookie")
    pair, *attributes = cookie.split("; ")
    [age] = [attribute for attribute in attributes if attribute.startswith("Max-Age=")]
    assert set(attributes) == {"Path=/", "Secure", "HttpOnly", "SameSite=Strict", age}
    assert 12 * 3600 - 1 - passed <= int(age.removeprefix("Max-Age=")) <= 12 * 3600
    assert pair.startswith(f"{SESSION}=")
    assert token not in cookie
    assert len(cookie) < 4096
    assert answer.headers["location"] == f"/{place.name}/locks"
    assert answer.headers["cache-control"] == "no-store"


async def test_the_headers_of_a_page(place: Place, tab: Tab) -> None:
    """A page loads nothing from elsewhere, runs no inline script, and stands in no frame."""
    headers = (await tab.get(f"/{place.name}/locks")).headers
    policy = headers["content-security-policy"].split("; ")
    assert {"default-src 'self'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"} <= set(policy)
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["vary"] == "Accept, Cookie"


FOREIGN: list[Mapping[str, str]] = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "none"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_form_of_another_site_is_refused(place: Place, tab: Tab, headers: Mapping[str, str]) -> None:
    """Whatever it sends, with the session and its text for forms: no lock is taken, and nobody is signed in."""
    id_ = await lock_of(place, "a.psd")
    sent = {"csrf": await tab.csrf(), "id": id_}
    for path, fields in (
        (f"/-/release/{place.name}", sent),
        (f"/-/steal/{place.name}", {**sent, "reason": "mine"}),
        ("/-/sign-out", sent),
        ("/-/sign-in", {"token": place.inner.tokens["bob"]}),
    ):
        answer = await tab.send(path, fields, **headers)
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False), path
        assert "<h1>Forbidden</h1>" in answer.text
    assert await owners(place) == {"a.psd": "alice"}


async def test_a_form_needs_the_text_of_its_session(place: Place, tab: Tab) -> None:
    """Without it, and with that of another session of the same user, the form is refused."""
    id_ = await lock_of(place, "a.psd")
    async with Tab(tab.origin) as other:
        await other.sign_in(place.inner.tokens["alice"])
        foreign = await other.csrf()
    for csrf in ({}, {"csrf": ""}, {"csrf": foreign}, {"csrf": "é"}):
        answer = await tab.send(f"/-/release/{place.name}", {"id": id_, **csrf})
        assert answer.status_code == 403
    assert await owners(place) == {"a.psd": "alice"}
    answer = await tab.send(f"/-/release/{place.name}", {"id": id_, "csrf": await tab.csrf()})
    assert answer.status_code == 303
    assert await owners(place) == {}


async def test_what_is_no_session_leads_to_the_sign_in(place: Place, stranger: Tab) -> None:
    """A session that was not made here, or is over, is none."""
    stranger.cookie = place.inner.tokens["alice"]
    answer = await stranger.get(f"/{place.name}/locks?folder=a")
    assert is_sign_in(answer), answer.text
    assert answer.headers["location"] == f"/-/sign-in?next=%2F{place.name.replace('/', '%2F')}%2Flocks%3Ffolder%3Da"
    answer = await stranger.send(f"/-/release/{place.name}", {"id": "1", "csrf": ""})
    assert is_sign_in(answer)


async def test_cookies_of_others_do_not_hide_the_session(place: Place, tab: Tab) -> None:
    """Other programs at the same host set cookies that no specification allows."""
    for odd in ('x={"a": [1, 2]}', "=", "a b=c", ";;"):
        answer = await tab.get(f"/{place.name}/locks", cookie=f"{odd}; {SESSION}={tab.cookie}; y=1")
        assert answer.status_code == 200, odd


async def test_a_new_key_keeps_the_sessions(inner: Inner) -> None:
    """While the old one is accepted; and not afterwards."""
    async with inner.running_facade(signing_key=OTHER_KEY) as before:
        place = await new_place(before, inner)
        async with Tab(before.origin) as tab:
            await tab.sign_in(inner.tokens["alice"])
    steps = {
        "accepted": ({"signing_key": SIGNING_KEY, "signing_key_accepted": OTHER_KEY}, 200),
        "not any more": ({"signing_key": SIGNING_KEY}, 303),
    }
    for step, (settings, status) in steps.items():
        async with inner.running_facade(**settings) as facade, Tab(facade.origin, tab.cookie) as moved:
            assert (await moved.get(f"/{place.name}/locks")).status_code == status, step


async def test_each_facade_serves_each_session(place: Place, tab: Tab, inner: Inner) -> None:
    """No facade keeps sessions: another one shows the page, and takes the form of the first."""
    id_ = await lock_of(place, "a.psd")
    csrf = await tab.csrf()
    async with inner.running_facade() as other, Tab(other.origin, tab.cookie) as moved:
        assert "a.psd" in (await moved.get(f"/{place.name}/locks")).text
        assert (await moved.send(f"/-/release/{place.name}", {"id": id_, "csrf": csrf})).status_code == 303
    assert await owners(place) == {}


async def test_a_revoked_token_ends_its_session(place: Place, inner: Inner) -> None:
    """The next click is the sign-in page, which says why, and the cookie is gone."""
    name = place.name.replace("/", "-")
    secret = await inner.locks.add_token("bob", name)
    async with Tab(place.facade.origin) as tab:
        await tab.sign_in(secret)
        assert (await tab.get(f"/{place.name}/locks")).status_code == 200
        request = admin.RevokeTokenRequest(user_name="bob", name=name)
        await inner.locks.admin_peer.call(inner.locks.admin.RevokeToken, request)

        async def is_over() -> bool:
            return is_sign_in(await tab.get(f"/{place.name}/locks"))

        await until(is_over, "the session is over")
        answer = await tab.get(f"/{place.name}/locks")
        assert "over=1" in answer.headers["location"]
        assert cookie_of(answer) == ""
        assert "Your session is over" in (await tab.get(answer.headers["location"])).text


@pytest.fixture
async def forges(inner: Inner) -> AsyncIterator[list[tuple[StubForge, str]]]:
    """Two forges, each with the name of a repository that is tied to it."""
    with running_forge("gitea") as first, running_forge("gitea") as second:
        found = []
        for forge in (first, second):
            name, repository = f"pages-{forge.number}", f"tied/{forge.number}"
            added = admin.CreateForgeRequest(
                name=name, kind=admin.FORGE_KIND_GITEA, api_url=forge.api_url, repositories=["acme/*"]
            )
            await inner.locks.admin_peer.call(inner.locks.admin.CreateForge, added)
            tied = admin.CreateRepositoryRequest(name=repository, forge=name, forge_repository="acme/film")
            await inner.locks.admin_peer.call(inner.locks.admin.CreateRepository, tied)
            found.append((forge, repository))
        yield found


async def test_a_session_of_a_forge_survives_the_pages_of_another(
    inner: Inner, stranger: Tab, forges: list[tuple[StubForge, str]]
) -> None:
    """The caller is a stranger there, reads what is public, and is asked to sign in for the rest, yet stays so."""
    (forge, home), (other, elsewhere) = forges
    forge.add(f"paula-{forge.number}", f"secret-{forge.number}", "write")
    await stranger.sign_in(f"secret-{forge.number}", repository=home)
    untied = f"untied/{forge.number}"
    await inner.locks.add_repository(untied)
    for name in (elsewhere, untied):
        for page in (f"/{name}", f"/{name}/locks", f"/-/watch/{name}"):
            answer = await stranger.get(page)
            assert is_sign_in(answer), (page, answer.text)
            assert "set-cookie" not in answer.headers
    public = admin.UpdateRepositoryRequest(name=elsewhere, public=True)
    await inner.locks.admin_peer.call(inner.locks.admin.UpdateRepository, public)
    assert "a stranger here" in (await stranger.get(f"/{elsewhere}/locks")).text
    own = await stranger.get(f"/{home}/locks")
    assert (own.status_code, f"paula-{forge.number}" in own.text) == (200, True)
    assert other.requests == []
