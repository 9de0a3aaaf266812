"""A user of the pages without JavaScript: it keeps the cookie of its session, follows links, and sends forms."""

import re
from html import unescape
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx

from tests.support.facade import RunningFacade
from tests.support.waiting import STEP_SECONDS

_CSRF = re.compile(r'name="csrf" value="([^"]+)"')
_NEXT = re.compile(r'<a rel="next" href="([^"]+)"')


class Visitor:
    """A visitor of the pages of a facade."""

    def __init__(self, facade: RunningFacade) -> None:
        self._http = httpx.AsyncClient(
            base_url=facade.origin, timeout=STEP_SECONDS, headers={"Accept": "text/html", "Origin": facade.origin}
        )
        self.cookie = ""
        """The session; a cookie of https, which httpx does not send to a loopback address as browsers do."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def sign_in(self, token: str) -> httpx.Response:
        """Sign in with a token, and return the answer."""
        answer = await self._http.post("/-/sign-in", data={"token": token, "next": "/"})
        self._keep(answer)
        return answer

    async def get(self, path: str) -> httpx.Response:
        """Return the answer for a page; a redirect is not followed."""
        answer = await self._http.get(path, headers=self._headers())
        self._keep(answer)
        return answer

    async def page(self, path: str) -> str:
        """Return the text of a page that is answered with 200."""
        answer = await self.get(path)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.text

    async def send(self, path: str, *, at: str = "", **fields: str) -> httpx.Response:
        """Send a form of the page `at`, which is `path` unless it is named, with these fields."""
        found = _CSRF.search(await self.page(at or path))
        assert found
        return await self.send_bare(path, csrf=found[1], **fields)

    async def send_bare(self, path: str, **fields: str) -> httpx.Response:
        """Send a form that has these fields alone."""
        answer = await self._http.post(path, data=fields, headers=self._headers())
        self._keep(answer)
        return answer

    async def pages(self, path: str) -> list[str]:
        """Return a page, and all that follow it by their links."""
        texts = [await self.page(path)]
        while found := _NEXT.search(texts[-1]):
            texts.append(await self.page(unescape(found[1])))
        return texts

    def _headers(self) -> dict[str, str]:
        return {"Cookie": self.cookie} if self.cookie else {}

    def _keep(self, answer: httpx.Response) -> None:
        for header in answer.headers.get_list("set-cookie"):
            pair, _, attributes = header.partition(";")
            self.cookie = "" if "Max-Age=0" in attributes else pair


def path_of(answer: httpx.Response) -> str:
    """Return the path to which an answer redirects."""
    assert answer.status_code == 303, answer.text
    return urlsplit(answer.headers["location"]).path
