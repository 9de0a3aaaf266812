"""A user of the pages without JavaScript, who follows links and sends the forms that the pages have."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from urllib.parse import urlsplit

import httpx

from tests.support.facade import RunningFacade
from tests.support.tabs import Tab

_NEXT = re.compile(r'<a rel="next" href="([^"]+)"')


class Visitor(Tab):
    """A tab in which links are followed, and forms are those of a page."""

    async def page(self, path: str) -> str:
        """Return the text of a page that is answered with 200."""
        answer = await self.get(path)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.text

    async def submit(self, path: str, *, at: str = "", **fields: str) -> httpx.Response:
        """Send a form of the page `at`, which is `path` unless it is named, with these fields."""
        return await self.send(path, {"csrf": await self.csrf(at or path), **fields})

    async def pages(self, path: str) -> list[str]:
        """Return a page, and all that follow it by their links."""
        texts = [await self.page(path)]
        while found := _NEXT.search(texts[-1]):
            texts.append(await self.page(unescape(found[1])))
        return texts


@asynccontextmanager
async def signed_in(facade: RunningFacade, token: str) -> AsyncIterator[Visitor]:
    """Open a tab in which the owner of a token has signed in."""
    async with Visitor(facade.origin) as visitor:
        await visitor.sign_in(token)
        yield visitor


def path_of(answer: httpx.Response) -> str:
    """Return the path to which an answer redirects."""
    assert answer.status_code == 303, answer.text
    return urlsplit(answer.headers["location"]).path
