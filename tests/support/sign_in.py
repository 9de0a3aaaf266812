"""Sign-in by a code, as a person does it: the address that `towpath login` shows, and the pages of oidc-provider."""

import asyncio
import re

from tests.support.browser import Browser
from tests.support.waiting import STEP_SECONDS


async def address_in(process: asyncio.subprocess.Process) -> str:
    """Return the address with the code that `towpath login` tells next."""
    assert process.stderr is not None
    for _ in range(2):
        line = (await asyncio.wait_for(process.stderr.readline(), STEP_SECONDS)).decode()
    [address] = re.findall(r"http\S+", line)
    return str(address)


async def sign_in(browser: Browser, user: str) -> None:
    """Confirm the code, sign in, and consent, on the pages of the provider."""
    await browser.click("button[autofocus]")
    await browser.enter("input[name=login]", user)
    await browser.enter("input[name=password]", "any")
    await browser.click("button[type=submit]")
    await browser.click("button[type=submit]")
    assert "Sign-in Success" in await browser.text()
