"""A headless Chromium that a test clicks through pages with, by WebDriver (W3C), as a person does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.ports import free_ports
from tests.support.programs import needed
from tests.support.waiting import STEP_SECONDS, until

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One window."""

    def __init__(self, http: httpx.AsyncClient, session: str) -> None:
        self._http = http
        self._session = session

    async def open(self, url: str) -> None:
        """Open a page, and wait until it is loaded."""
        await self._post("url", url=url)

    async def has(self, selector: str) -> bool:
        """Return whether the page has an element."""
        return bool(await self._post("elements", using="css selector", value=selector))

    async def enter(self, selector: str, text: str) -> None:
        """Enter text into an input."""
        await self._post(f"{await self._element(selector)}/clear")
        await self._post(f"{await self._element(selector)}/value", text=text)

    async def click(self, selector: str) -> None:
        """Click on an element, and wait until it is gone with its page."""
        element = await self._element(selector)
        await self._post(f"{element}/click")

        async def is_gone() -> bool:
            answer = await self._http.get(f"/session/{self._session}/{element}/name")
            return answer.status_code == 404

        await until(is_gone, f"the page after a click on {selector}")

    async def text(self) -> str:
        """Return the text of the page."""
        answer = await self._http.get(f"/session/{self._session}/{await self._element('body')}/text")
        return str(answer.raise_for_status().json()["value"])

    async def _element(self, selector: str) -> str:
        async def is_here() -> bool:
            return await self.has(selector)

        await until(is_here, f"an element {selector}")
        [element, *_] = await self._post("elements", using="css selector", value=selector)
        return f"element/{element[_ELEMENT]}"

    async def _post(self, command: str, **body: Any) -> Any:  # noqa: ANN401 - whatever JSON the driver takes and gives
        answer = await self._http.post(f"/session/{self._session}/{command}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]


@asynccontextmanager
async def running_browser(folder: Path) -> AsyncIterator[Browser]:
    """Run a browser without a memory until the block ends; its profile and its log go into the folder."""
    chromium = needed("chromium")
    [port] = free_ports(1)
    command = [needed("chromedriver"), f"--port={port}", f"--log-path={folder / 'chromedriver.log'}"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"]
    chrome = {"binary": chromium, "args": [*options, f"--user-data-dir={folder / 'profile'}"]}
    wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": chrome}}}
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=STEP_SECONDS
        ) as http:

            async def is_ready() -> bool:
                try:
                    return bool((await http.get("/status")).json()["value"]["ready"])
                except httpx.ConnectError:
                    return False

            await until(is_ready, "the driver of the browser")
            answer = await http.post("/session", json=wanted)
            assert answer.status_code == 200, answer.text
            session = answer.json()["value"]["sessionId"]
            try:
                yield Browser(http, session)
            finally:
                await http.delete(f"/session/{session}")
    finally:
        process.terminate()
        await process.wait()
