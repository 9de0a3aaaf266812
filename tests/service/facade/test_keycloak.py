"""Sign-in at a real Keycloak, whose pages, tokens and keys are its own."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx
import pytest
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import Reason, Unauthenticated
from tests.service.facade.conftest import Inner, Place
from tests.service.facade.test_sign_in import Terminal, terminal
from tests.service.locks.issuers import add_group, add_provider, authenticate
from tests.support.browser import Browser
from tests.support.http import Client, content
from tests.support.keycloak import GROUP, PASSWORD, USER, Keycloak, running_keycloak
from tests.support.locks import refused
from tests.support.postgres import TestPostgres
from tests.support.waiting import STEP_SECONDS, until

pytestmark = pytest.mark.drill

__all__ = ["terminal"]


@pytest.fixture(scope="package")
async def keycloak(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Keycloak]:
    """Keycloak."""
    async with running_keycloak(tmp_path_factory.mktemp("keycloak")) as running:
        yield running


@pytest.fixture(scope="package")
async def issuer(inner: Inner, keycloak: Keycloak) -> str:
    """The name of Keycloak at the lock service."""
    return await add_provider(inner.locks, "keycloak", keycloak)


async def sign_in(browser: Browser, user: str) -> None:
    """Sign in, unless the browser has done so already, and grant the access, on the pages of Keycloak."""
    if await browser.has("#username"):
        await browser.enter("#username", user)
        await browser.enter("#password", PASSWORD)
        await browser.click("#kc-login")
    await browser.click("#kc-login")


async def test_a_person_signs_in_to_the_pages_with_keycloak(
    place: Place, issuer: str, keycloak: Keycloak, browser: Browser, postgres: TestPostgres
) -> None:
    """By a code with a challenge, without which Keycloak gives none; the groups of Keycloak give the rights."""
    locks = place.inner.locks
    await add_group(postgres, locks, "keycloak-visitors", place.name, "write")
    mapping = admin.MapIssuerGroupRequest(issuer=issuer, value=GROUP, group="keycloak-visitors")
    await locks.admin_peer.call(locks.admin.MapIssuerGroup, mapping)
    origin = place.facade.origin
    # At the end the client is that of the other tests again, which send no challenge.
    async with keycloak.returning_to(f"{origin}/-/sign-in/callback"):
        assert await _refusal_without_a_challenge(origin, issuer) == "invalid_request"
        await browser.open(f"{origin}/-/sign-in?next=%2F{quote(place.name, safe='')}")
        await browser.click(f"a[href^='/-/sign-in/with/{issuer}']")
        await browser.enter("#username", USER)
        await browser.enter("#password", PASSWORD)
        await browser.click("#kc-login")
        await until(lambda: browser.has(".account form"), "the page with the session")
    shown = " ".join((await browser.text()).split())
    assert f"{USER}@keycloak" in shown
    assert f"{place.name} private" in shown
    assert "You may write" in shown
    await browser.click(".account form button")
    assert not await browser.has(".account form")


async def _refusal_without_a_challenge(origin: str, issuer: str) -> str:
    """Return the error with which Keycloak answers a sign-in whose challenge somebody has taken away."""
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        left = await http.get(f"{origin}/-/sign-in/with/{issuer}")
        asked = {
            name: value
            for name, value in httpx.URL(left.headers["location"]).params.items()
            if not name.startswith("code_challenge")
        }
        answer = await http.get(httpx.URL(left.headers["location"]).copy_with(params=asked))
        return httpx.URL(answer.headers["location"]).params["error"]


async def test_a_person_signs_in_with_keycloak(
    place: Place, issuer: str, terminal: Terminal, browser: Browser, postgres: TestPostgres
) -> None:
    """Keycloak refuses this user the scope `offline_access`: the command asks once more, and gets a refresh token."""
    locks = place.inner.locks
    await add_group(postgres, locks, "keycloak-artists", place.name, "write")
    mapping = admin.MapIssuerGroupRequest(issuer=issuer, value=GROUP, group="keycloak-artists")
    await locks.admin_peer.call(locks.admin.MapIssuerGroup, mapping)
    await terminal.login(browser, issuer, USER, sign_in, times=2)
    first = await terminal.credential()
    assert first["username"] == f"{USER}@keycloak"
    async with Client(place.base_url, first["username"], first["password"]) as client:
        assert (await client.upload(content(place.name, 5_000))).status_code == 200
    rejected = "".join(f"{name}={value}\n" for name, value in first.items())
    await terminal.run("git", "credential", "reject", text=f"{rejected}\n")
    assert (await terminal.credential())["password"] != first["password"]
    await terminal.towpath("logout", place.facade.origin)


@pytest.mark.usefixtures("issuer")
async def test_keys_change_under_load(inner: Inner, keycloak: Keycloak) -> None:
    """Tokens of a key that is a moment old are accepted at once, and those of the key before it go on."""
    before = [await keycloak.tokens() for _ in range(5)]
    known = await authenticate(inner.locks, before[0]["id_token"])
    await keycloak.rotate()
    after = await asyncio.gather(*(keycloak.tokens() for _ in range(10)))
    tokens = [given["id_token"] for given in (*before, *after)]
    answers = await asyncio.gather(*(authenticate(inner.locks, token) for token in tokens))
    assert {answer.user_id for answer in answers} == {known.user_id}


@pytest.mark.usefixtures("issuer")
@pytest.mark.parametrize(("kind", "message"), [("access_token", "aud: "), ("refresh_token", "alg: ")])
async def test_other_tokens_of_keycloak(inner: Inner, keycloak: Keycloak, kind: str, message: str) -> None:
    """An access token is for others, and a refresh token is signed with a secret: both say why they are refused."""
    token = (await keycloak.tokens())[kind]
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
        await authenticate(inner.locks, token)
    assert caught.value.message.startswith(message)
