"""Sign-in to the pages at a real provider of OpenID Connect, in a real browser."""

from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.service.facade.conftest import Inner
from tests.service.locks.issuers import add_provider
from tests.support.browser import Browser
from tests.support.facade import RunningFacade
from tests.support.oidc_provider import OidcProvider
from tests.support.waiting import STEP_SECONDS, until

LEAVE = "/-/sign-in/with/pages-sso"
BACK = "/-/sign-in/callback"


@pytest.fixture(scope="module", autouse=True)
async def issuer(inner: Inner, provider: OidcProvider) -> None:
    """Make the provider an issuer at the lock service."""
    await add_provider(inner.locks, "pages-sso", provider)


@pytest.fixture
async def http(facade: RunningFacade) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without a person, at the facade."""
    async with httpx.AsyncClient(base_url=facade.origin, timeout=STEP_SECONDS) as client:
        yield client


async def test_a_person_signs_in_at_the_provider_and_comes_back(browser: Browser, facade: RunningFacade) -> None:
    """The session begins at the page that was asked for, and ends with the sign-out."""
    await browser.open(f"{facade.origin}/-/sign-in?next=%2F")
    await browser.click(f"a[href^='{LEAVE}']")
    await browser.enter("input[name=login]", "erin")
    await browser.enter("input[name=password]", "any")
    await browser.click("button[type=submit]")
    await browser.click("button[type=submit]")
    await until(lambda: browser.has(".account form"), "the page with the session")
    assert "erin" in await browser.text()
    await browser.click(".account form button")
    assert "Sign in" in await browser.text()
    assert not await browser.has(".account form")


async def test_the_way_to_the_provider_carries_a_challenge(http: httpx.AsyncClient, provider: OidcProvider) -> None:
    """State, nonce and challenge are new each time, and the cookie that keeps them is sealed."""
    first, second = [await http.get(LEAVE) for _ in range(2)]
    assert (first.status_code, first.headers["location"].startswith(provider.url)) == (303, True)
    asked, again = (parse_qs(urlsplit(answer.headers["location"]).query) for answer in (first, second))
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["redirect_uri"] == [f"{http.base_url}{BACK}".replace(f"/{BACK}", BACK)]
    for name in ("state", "nonce", "code_challenge"):
        assert asked[name] != again[name]
    cookie = first.headers["set-cookie"]
    assert cookie.startswith("__Host-towpath-sign-in=")
    assert "; SameSite=Lax" in cookie
    assert not any(value[0] in cookie for name, value in asked.items() if name in ("state", "nonce"))


async def test_nobody_is_signed_in_by_the_code_of_another(http: httpx.AsyncClient) -> None:
    """A page of another site cannot make a browser come back with its own code, nor with an old state."""
    assert (await http.get(BACK, params={"code": "x", "state": "x" * 32})).status_code == 403
    left = await http.get(LEAVE)
    cookie = {"Cookie": left.headers["set-cookie"].partition(";")[0]}
    state = parse_qs(urlsplit(left.headers["location"]).query)["state"][0]
    assert (await http.get(BACK, params={"code": "x", "state": state[:-1] + "~"}, headers=cookie)).status_code == 403
    assert (await http.get(BACK, params={"code": "x"}, headers=cookie)).status_code == 403
    bad_code = await http.get(BACK, params={"code": "x", "state": state}, headers=cookie)
    assert bad_code.status_code == 401
    assert "__Host-towpath-session=" not in bad_code.headers.get("set-cookie", "")


async def test_the_refusal_of_the_provider_is_shown_as_text(http: httpx.AsyncClient) -> None:
    """A person who declines reads what the provider says, in which markup is text."""
    left = await http.get(LEAVE)
    cookie = {"Cookie": left.headers["set-cookie"].partition(";")[0]}
    state = parse_qs(urlsplit(left.headers["location"]).query)["state"][0]
    refused = await http.get(
        BACK,
        params={"error": "access_denied", "error_description": "<b>no</b>", "state": state},
        headers={**cookie, "Accept": "text/html"},
    )
    assert refused.status_code == 403
    assert "pages-sso has refused the sign-in: &lt;b&gt;no&lt;/b&gt;" in refused.text


async def test_an_unknown_issuer_leads_nowhere(http: httpx.AsyncClient) -> None:
    """The error is a page."""
    answer = await http.get("/-/sign-in/with/nobody", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
