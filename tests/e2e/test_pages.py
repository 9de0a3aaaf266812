"""The pages in a real browser, in front of a real `towpath up --demo`, beside the real git-lfs."""

from __future__ import annotations

import asyncio
import re
import secrets
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pytest

from tests.support.chromium import NARROW, WIDE, Window, running_chromium, window
from tests.support.git import Clone, Workspace, shared_repository
from tests.support.http import Client
from tests.support.proxies import running_nginx
from tests.support.stack import Stack, running_stack
from tests.support.tabs import Tab
from tests.support.waiting import STEP_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from playwright.async_api import Browser, Locator, Route

REPOSITORY = "demo/assets"
LOCKS, HISTORY = f"/{REPOSITORY}/locks", f"/-/history/{REPOSITORY}"
HOSTILE = "odd/<img src=x onerror=\"document.title='taken'\"><b>\u202egnp\u2066.exe\n\u200f'&amp;"
HOSTILE_SHOWN = "odd/<img src=x onerror=\"document.title='taken'\"><b>U+202EgnpU+2066.exeU+000AU+200F'&amp;"
_MOST_PAGES = 60


@pytest.fixture(scope="module")
def own() -> Iterator[Stack]:
    """A `towpath up --demo` that trusts a proxy on this computer, for the tests of this module."""
    # An administrator reads no repository without a grant.
    with running_stack(environment={"TOWPATH_TRUSTED_PROXIES": "127.0.0.1"}) as running:
        running.towpath("grant", "admin", REPOSITORY, "--role", "admin")
        yield running


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A browser."""
    async with running_chromium() as running:
        yield running


@pytest.fixture
async def alice(browser: Browser, own: Stack) -> AsyncIterator[Window]:
    """A window in which alice, who may write, looks at the locks."""
    async with window(browser, own.origin) as opened:
        await opened.sign_in(own.tokens["alice"], LOCKS)
        yield opened


@pytest.fixture
async def bob(browser: Browser, own: Stack) -> AsyncIterator[Window]:
    """A window in which bob, who may write on his branch, looks at the locks."""
    async with window(browser, own.origin) as opened:
        await opened.sign_in(own.tokens["bob"], LOCKS)
        yield opened


@pytest.fixture
def clone(tmp_path: Path, own: Stack) -> Clone:
    """Bob's clone of a git repository, on his branch."""
    first = Workspace(tmp_path / "alice", "alice", own.tokens["alice"], origin=own.origin)
    shared_repository(first, tmp_path / "remote.git", lfs_url=own.base_url)
    computer = Workspace(tmp_path / "bob", "bob", own.tokens["bob"], origin=own.origin)
    made = computer.clone(tmp_path / "remote.git", lfs_url=own.base_url)
    made.git("checkout", "--quiet", "-b", "bob")
    return made


async def lock(stack: Stack, user: str, *paths: str) -> None:
    """Lock paths by the interface."""
    ref = "refs/heads/bob" if user == "bob" else None
    async with Client(stack.base_url, user, stack.tokens[user], ref=ref) as client:
        for path in paths:
            answer = await client.lock(path)
            assert answer.status_code == 201, answer.text


def row(opened: Window, path: str) -> Locator:
    """Return the row of a lock."""
    return opened.page.locator("#locks tbody tr", has=opened.page.get_by_role("rowheader", name=path, exact=True))


def _name(kind: str) -> str:
    return f"Content/{kind}/{secrets.token_hex(4)}.dat"


async def test_a_lock_appears_is_stolen_and_released(alice: Window, bob: Window, clone: Clone) -> None:
    """Live in an open page; the theft with its reason is known to git-lfs, and to the one it was taken from."""
    path = _name("Maps")
    await asyncio.to_thread(clone.commit, {path: b"a map"})
    await alice.page.evaluate("window.isSame = true")
    await asyncio.to_thread(clone.lfs, "lock", path)
    await row(alice, path).wait_for()
    assert "bob" in await row(alice, path).inner_text()
    await row(alice, path).get_by_text("Take over").click()
    await row(alice, path).get_by_label("Reason").fill("bob is on leave <b>")
    assert await alice.page.evaluate("window.isSame")
    await row(alice, path).get_by_role("button", name="Steal the lock").click()
    await row(alice, path).get_by_role("button", name="Release").wait_for()
    assert path in await asyncio.to_thread(_owned_by_alice, clone)
    # Bob's page has followed without a click.
    await row(bob, path).get_by_role("cell", name="alice", exact=True).wait_for()
    await bob.open(f"{HISTORY}?path={quote(path)}")
    told = await bob.page.locator("tbody tr").inner_text()
    assert "stolen by alice: bob is on leave <b>" in " ".join(told.split())
    await row(alice, path).get_by_role("button", name="Release").click()
    await row(alice, path).wait_for(state="detached")
    assert path not in (await asyncio.to_thread(clone.lfs, "locks")).stdout


def _owned_by_alice(clone: Clone) -> str:
    return "\n".join(line for line in clone.lfs("locks").stdout.splitlines() if "alice" in line)


async def test_an_open_form_is_not_taken_away(alice: Window, own: Stack) -> None:
    """While somebody writes a reason, the list waits and says so, also one that was on its way."""
    standing, on_its_way, later = _name("Standing"), _name("OnItsWay"), _name("Later")
    await lock(own, "bob", standing)
    await row(alice, standing).wait_for()
    asked, is_opened = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        asked.set()
        await is_opened.wait()
        await route.continue_()

    await alice.page.route(re.compile(LOCKS), hold)
    await lock(own, "bob", on_its_way)
    async with asyncio.timeout(STEP_SECONDS):
        await asked.wait()
    await row(alice, standing).get_by_text("Take over").click()
    is_opened.set()
    await alice.page.get_by_text("The list has changed.").wait_for()
    await row(alice, standing).get_by_label("Reason").fill("half a sent")
    await lock(own, "bob", later)
    assert await row(alice, standing).get_by_label("Reason").input_value() == "half a sent"
    assert await row(alice, on_its_way).count() == 0
    await row(alice, standing).get_by_text("Take over").click()
    await row(alice, on_its_way).wait_for()
    await row(alice, later).wait_for()


async def test_filters(alice: Window, own: Stack) -> None:
    """By folder and by owner, also of what comes afterwards."""
    folder = f"Content/{secrets.token_hex(4)}/"
    await lock(own, "alice", f"{folder}a.dat", f"{folder}b/c.dat")
    await lock(own, "bob", f"{folder}d.dat")
    await alice.page.get_by_label("Folder").fill(folder)
    await alice.page.get_by_role("button", name="Filter").click()
    await row(alice, f"{folder}a.dat").wait_for()
    assert await alice.page.locator("#locks tbody tr").count() == 3
    await alice.page.get_by_label("Owner").fill("bob")
    await alice.page.get_by_role("button", name="Filter").click()
    await row(alice, f"{folder}a.dat").wait_for(state="detached")
    assert await alice.page.locator("#locks tbody th").all_inner_texts() == [f"{folder}d.dat"]
    await lock(own, "alice", f"{folder}e.dat")
    await lock(own, "bob", f"{folder}f.dat", "elsewhere/" + secrets.token_hex(4))
    await row(alice, f"{folder}f.dat").wait_for()
    assert await alice.page.locator("#locks tbody th").all_inner_texts() == [f"{folder}d.dat", f"{folder}f.dat"]
    await alice.page.get_by_role("link", name="All locks").click()
    await alice.page.wait_for_url(f"{own.origin}{LOCKS}")


async def test_hostile_paths_stay_text(alice: Window, own: Stack) -> None:
    """In the list as it comes live, in the list as it is loaded, in the filter and in the history."""
    await lock(own, "alice", HOSTILE)
    shown = alice.page.locator("th.path", has_text="onerror").first
    await shown.wait_for()
    for _ in range(2):
        assert await shown.text_content() == HOSTILE_SHOWN
        assert await shown.locator("img, b").count() == 0
        await alice.page.reload()
    await alice.open(f"{LOCKS}?folder={quote(HOSTILE)}")
    assert await alice.page.get_by_label("Folder").input_value() == HOSTILE.replace("\n", "")
    await alice.page.locator("#locks tbody").get_by_role("button", name="Release").click()
    await shown.wait_for(state="detached")
    await alice.open(HISTORY)
    await shown.wait_for()
    assert await shown.text_content() == HOSTILE_SHOWN
    assert await alice.page.locator("main img, main b").count() == 0
    assert "taken" not in await alice.page.title()


async def test_a_revoked_token(browser: Browser, own: Stack) -> None:
    """Ends the live list of an open page, and the next click is the sign-in page."""
    name = f"pages-{secrets.token_hex(4)}"
    token = own.towpath("token", "add", "alice", "--name", name)["secret"]
    async with window(browser, own.origin) as opened:
        await opened.sign_in(token, LOCKS)
        await lock(own, "bob", name)
        # A page that loads its list without a session goes to the sign-in by itself; with an open form it waits.
        await row(opened, name).get_by_text("Take over").click()
        await asyncio.to_thread(own.towpath, "token", "revoke", "alice", name)
        await opened.page.get_by_text("The list is not live any more.").wait_for()
        await opened.page.get_by_role("link", name="History").click()
        await opened.page.get_by_role("heading", name="Sign in").wait_for()
        assert urlsplit(opened.page.url).path == "/-/sign-in"
        # Where the stream was, there is a page.
        assert all("EventSource" in complaint for complaint in opened.complaints)
        opened.complaints.clear()
        await opened.page.get_by_label("Token").fill(own.tokens["alice"])
        await opened.page.locator("main").get_by_role("button", name="Sign in").click()
        await opened.page.wait_for_url(f"{own.origin}{HISTORY}")


async def test_sign_out(alice: Window) -> None:
    """Ends the session in this browser: neither a link nor the way back shows a page of it."""
    await alice.page.get_by_role("button", name="Sign out").click()
    await alice.page.get_by_role("heading", name="Sign in").wait_for()
    assert await alice.page.context.cookies() == []
    await alice.page.go_back()
    await alice.page.get_by_role("heading", name="Sign in").wait_for()
    await alice.open(LOCKS)
    assert urlsplit(alice.page.url).path == "/-/sign-in"


async def test_without_scripts(browser: Browser, own: Stack) -> None:
    """All but the live list works: sign-in, filter, theft, release, sign-out."""
    path = _name("Plain")
    await lock(own, "bob", path)
    async with window(browser, own.origin, scripts=False) as opened:
        await opened.sign_in(own.tokens["alice"], LOCKS)
        await opened.page.get_by_label("Folder").fill(path)
        await opened.page.get_by_role("button", name="Filter").click()
        await row(opened, path).get_by_text("Take over").click()
        await row(opened, path).get_by_label("Reason").fill("no scripts")
        await row(opened, path).get_by_role("button", name="Steal the lock").click()
        assert f"folder={quote(path, safe='')}" in opened.page.url
        await row(opened, path).get_by_role("button", name="Release").click()
        await opened.page.get_by_text("No lock matches.").wait_for()
        await opened.page.get_by_role("button", name="Sign out").click()
        await opened.page.get_by_role("heading", name="Sign in").wait_for()


async def test_keyboard_alone(browser: Browser, own: Stack) -> None:
    """A person signs in, skips to the content, filters, and steals a lock without a mouse."""
    path = _name("Keys")
    await lock(own, "bob", path)
    async with window(browser, own.origin) as opened:
        keyboard = opened.page.keyboard
        await opened.open(LOCKS)
        await opened.page.wait_for_function("document.activeElement.id === 'token'")
        await keyboard.type(own.tokens["alice"])
        await keyboard.press("Enter")
        await opened.page.wait_for_url(f"{own.origin}{LOCKS}")
        await opened.tab_to("a.skip")
        await keyboard.press("Enter")
        assert await opened.page.evaluate("document.activeElement.id") == "main"
        await opened.tab_to("#folder")
        await keyboard.type(path)
        await keyboard.press("Enter")
        await opened.page.wait_for_url(re.compile("folder="))
        await opened.tab_to("summary")
        await keyboard.press("Enter")
        await opened.tab_to("input[name=reason]")
        await keyboard.type("by keys")
        await keyboard.press("Enter")
        await row(opened, path).get_by_role("button", name="Release").wait_for()
        await opened.tab_to("#locks button")
        # The list that follows the events is another one, and the focus stays where it was.
        await lock(own, "bob", f"{path}.later")
        await row(opened, f"{path}.later").wait_for()
        await keyboard.press("Space")
        await row(opened, path).wait_for(state="detached")


@pytest.mark.parametrize("agent", ["git-lfs/3.7.1 (GitHub; linux amd64; go 1.25.0)", "curl/8.14.1"])
async def test_programs_get_json_where_pages_are(own: Stack, agent: str) -> None:
    """With the Accept of git-lfs and that of curl, the addresses of pages answer as they did before there were any."""
    accept = "application/vnd.git-lfs+json" if agent.startswith("git-lfs") else "*/*"
    async with Tab(own.origin) as tab:
        shown = {"user_agent": agent, "accept": accept, "authorization": f"Bearer {own.tokens['alice']}"}
        answer = await tab.get(LOCKS, **shown)
        assert answer.status_code == 200
        assert "locks" in answer.json()
        assert (await tab.get(LOCKS, user_agent=agent, accept=accept)).status_code == 401
        described = await tab.get("/openapi.json")
        assert described.json()["openapi"]


async def test_behind_a_proxy_with_a_prefix(browser: Browser, own: Stack, tmp_path: Path) -> None:
    """Everything works below the sub-path that nginx strips: sign-in, links, the live list, forms, sign-out."""
    path = _name("Proxied")
    with running_nginx(tmp_path, [own.listen, own.listen], sub_path=True) as proxy:
        site = f"{proxy.origin}/lfs"
        async with window(browser, site, trusts_all=True) as opened:
            await opened.open(f"/{REPOSITORY}")
            await opened.page.get_by_label("Token").fill(own.tokens["alice"])
            await opened.page.locator("main").get_by_role("button", name="Sign in").click()
            await opened.page.wait_for_url(f"{site}/{REPOSITORY}")
            assert f"lfs.url {site}/{REPOSITORY}" in await opened.text()
            await opened.page.get_by_role("link", name="Locks").click()
            await opened.page.wait_for_url(f"{site}{LOCKS}")
            await lock(own, "alice", path)
            await row(opened, path).get_by_role("button", name="Release").click()
            await row(opened, path).wait_for(state="detached")
            assert opened.page.url == f"{site}{LOCKS}"
            links = await opened.page.eval_on_selector_all(
                "[href], [src], form", "all => all.map(one => one.href || one.src || one.action)"
            )
            assert [link for link in links if not link.startswith(f"{site}/")] == []
            await opened.page.get_by_role("button", name="Sign out").click()
            await opened.page.wait_for_url(f"{site}/-/sign-in")


class _Links(HTMLParser):
    """The addresses that a page leads to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a link."""
        address = dict(attrs).get("href") or ""
        if tag == "a" and address.startswith("/"):
            self.found.add(address.partition("?")[0].partition("#")[0])


@pytest.fixture(scope="module")
async def everywhere(own: Stack) -> list[str]:
    """The pages that links lead an administrator to, from the first one on."""
    await lock(own, "alice", HOSTILE + "everywhere", "Content/Maps/Everywhere.umap")
    await lock(own, "bob", "Content/Maps/" + "VeryLongName" * 30 + ".umap")
    async with Tab(own.origin) as tab:
        await tab.sign_in((own.data / "admin-token").read_text().strip())
        seen, waiting = ["/-/sign-in"], ["/"]
        while waiting and len(seen) < _MOST_PAGES:
            path = waiting.pop(0)
            answer = await tab.get(path)
            if answer.headers["content-type"].startswith("text/html"):
                seen.append(path)
                links = _Links()
                links.feed(answer.text)
                waiting += sorted(links.found - set(seen) - set(waiting))
        return seen


async def test_no_link_leads_nowhere(own: Stack, everywhere: list[str]) -> None:
    """Each page that a page leads to is there."""
    assert {"/", f"/{REPOSITORY}", LOCKS, HISTORY} <= set(everywhere)
    async with Tab(own.origin) as tab:
        await tab.sign_in((own.data / "admin-token").read_text().strip())
        statuses = {path: (await tab.get(path)).status_code for path in everywhere}
    assert {path: status for path, status in statuses.items() if status != 200} == {}


@pytest.mark.parametrize(
    ("scheme", "size"),
    [
        pytest.param("light", WIDE, id="light, wide"),
        pytest.param("dark", NARROW, id="dark, narrow"),
        pytest.param("light", NARROW, id="light, narrow"),
        pytest.param("dark", WIDE, id="dark, wide"),
    ],
)
@pytest.mark.drill
async def test_every_page_is_accessible(
    browser: Browser, own: Stack, everywhere: list[str], size: tuple[int, int], scheme: str
) -> None:
    """By axe, without serious or critical findings, and no page scrolls sideways; nothing comes from elsewhere."""
    barriers: dict[str, list[str]] = {}
    async with window(browser, own.origin, size=size, scheme=scheme) as opened:
        await opened.open("/-/sign-in")
        barriers["sign-in"] = await opened.barriers()
        await opened.sign_in((own.data / "admin-token").read_text().strip())
        for path in everywhere:
            if await opened.open(path) == 200:
                if summaries := await opened.page.locator("summary").all():
                    await summaries[0].click()
                barriers[path] = await opened.barriers()
        await opened.open("/-/nothing")
        barriers["not found"] = await opened.barriers()
        # Chromium itself says that a page was not found.
        opened.complaints[:] = [told for told in opened.complaints if "404 (Not Found)" not in told]
    assert {path: found for path, found in barriers.items() if found} == {}


async def test_the_policy_forbids_scripts_in_a_page(alice: Window) -> None:
    """Even markup that got into a page would not run: the browser says why."""
    await alice.page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<p onclick=\"document.title=1\" id=x>x</p>')"
    )
    await alice.page.locator("#x").click()
    assert await alice.page.title() != "1"
    assert any("Content Security Policy" in complaint for complaint in alice.complaints)
    alice.complaints.clear()
