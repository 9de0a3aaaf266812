"""A headless Chromium by Playwright, and windows that note what a page must not do.

Playwright drives the Chromium of the system. Where its package is not installed, the tests with it are skipped.
"""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.support.programs import needed
from tests.support.waiting import START_SECONDS, STEP_SECONDS

if TYPE_CHECKING:  # the package may be absent
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, ConsoleMessage, Page

_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
]
_SERIOUS = ("serious", "critical")
_MAX_TABS = 80

WIDE, NARROW = (1280, 800), (360, 740)


@dataclass
class Window:
    """A window of a browser in which nobody has signed in before, at a site.

    `complaints` are the errors and warnings of its console and its scripts; `elsewhere` are the addresses outside of
    the site that a page has asked for.
    """

    page: Page
    origin: str
    complaints: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(STEP_SECONDS * 1_000)
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.context.on("request", lambda request: self._note_address(request.url))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _note_address(self, address: str) -> None:
        parts = urlsplit(address)
        if f"{parts.scheme}://{parts.netloc}" != "://".join(urlsplit(self.origin)[:2]):
            self.elsewhere.append(address)

    async def open(self, path: str) -> int:
        """Open a page of the site, and return its status."""
        answer = await self.page.goto(f"{self.origin}{path}")
        assert answer is not None
        return answer.status

    async def sign_in(self, token: str, path: str = "/") -> None:
        """Sign in with a token, on the way to a page that needs it."""
        await self.open(f"/-/sign-in?next={path}")
        await self.page.get_by_label("Token").fill(token)
        await self.page.locator("main").get_by_role("button", name="Sign in").click()
        await self.page.wait_for_url(re.compile(re.escape(f"{self.origin}{path}") + "$"))

    async def text(self) -> str:
        """Return the text of the page."""
        return await self.page.locator("body").inner_text()

    async def tab_to(self, selector: str) -> None:
        """Press the Tab key until an element has the focus."""
        for _ in range(_MAX_TABS):
            await self.page.keyboard.press("Tab")
            if await self.page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"{selector} is not reached by {_MAX_TABS} tabs")

    async def barriers(self) -> list[str]:
        """Return what axe finds on the page that is serious or critical, and whether the page is too wide."""
        await self.page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
        found: dict[str, Any] = await self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        told = [
            f"{violation['id']}: {node['html'][:200]}: {node['failureSummary']}"
            for violation in found["violations"]
            if violation["impact"] in _SERIOUS
            for node in violation["nodes"]
        ]
        width = await self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return [*told, *([f"the page scrolls {width} px to the right"] if width > 0 else [])]


@asynccontextmanager
async def running_chromium() -> AsyncIterator[Browser]:
    """Run a Chromium until the block ends."""
    playwright = pytest.importorskip("playwright.async_api", reason="the package playwright is not installed")
    async with playwright.async_playwright() as driver:
        browser: Browser = await driver.chromium.launch(
            executable_path=needed("chromium"), args=_OPTIONS, timeout=START_SECONDS * 1_000
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def window(
    browser: Browser,
    origin: str,
    *,
    size: tuple[int, int] = WIDE,
    scheme: str = "light",
    scripts: bool = True,
    trusts_all: bool = False,
) -> AsyncIterator[Window]:
    """Open a window with a memory of its own; no page in it may ask another site, or log an error that is unread."""
    context = await browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        java_script_enabled=scripts,
        ignore_https_errors=trusts_all,
        locale="en-GB",
    )
    try:
        opened = Window(await context.new_page(), origin)
        yield opened
    finally:
        await context.close()
    assert opened.elsewhere == [], opened.elsewhere
    assert opened.complaints == [], opened.complaints
