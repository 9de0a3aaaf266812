"""A browser's requests by hand: a tab keeps the cookie of its session, and sends what browsers send."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from tests.support.waiting import STEP_SECONDS

HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
"""The Accept header that Chromium and Firefox send with a click."""

SESSION = "__Host-towpath-session"
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


@dataclass
class Tab:
    """A tab of a browser; `cookie` is the sealed session, empty before the sign-in."""

    origin: str
    cookie: str = ""
    http: httpx.AsyncClient = field(default_factory=lambda: httpx.AsyncClient(timeout=STEP_SECONDS, trust_env=False))

    async def __aenter__(self) -> Self:
        """Return the tab itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.http.aclose()

    def headers(self, **headers: str) -> dict[str, str]:
        """Return the headers of a click; an empty one is left out."""
        cookie = f"{SESSION}={self.cookie}" if self.cookie else ""
        named = {"accept": HTML, "cookie": cookie, **{key.replace("_", "-"): value for key, value in headers.items()}}
        return {key: value for key, value in named.items() if value}

    async def get(self, path: str, *, method: str = "GET", **headers: str) -> httpx.Response:
        """Open a page, without following where it leads."""
        return await self.http.request(method, f"{self.origin}{path}", headers=self.headers(**headers))

    async def send(self, path: str, fields: Mapping[str, Any] | bytes, **headers: str) -> httpx.Response:
        """Send a form as a page of this site does."""
        told = self.headers(**{"origin": self.origin, "content-type": "application/x-www-form-urlencoded", **headers})
        body: dict[str, Any] = {"content": fields} if isinstance(fields, bytes) else {"data": fields}
        return await self.http.post(f"{self.origin}{path}", headers=told, **body)

    async def sign_in(self, token: str, **fields: str) -> httpx.Response:
        """Sign in, and keep the cookie of the session."""
        answer = await self.send("/-/sign-in", {"token": token, **fields})
        assert answer.status_code == 303, answer.text
        self.cookie = cookie_of(answer)
        return answer

    async def csrf(self, path: str = "/") -> str:
        """Return the text that the forms of this session send back."""
        found = _CSRF.search((await self.get(path)).text)
        assert found is not None
        return found[1]


def cookie_of(answer: httpx.Response) -> str:
    """Return the sealed session that an answer sets."""
    return SimpleCookie(answer.headers["set-cookie"])[SESSION].value


def is_sign_in(answer: httpx.Response) -> bool:
    """Return whether an answer leads to the sign-in."""
    return answer.status_code == 303 and urlsplit(answer.headers["location"]).path.endswith("/-/sign-in")
