"""The part of a browser in a sign-in by authorization code: the forms of an issuer, filled in and sent over HTTP."""

from html.parser import HTMLParser
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx

from tests.support.waiting import STEP_SECONDS

_MAX_STEPS = 20


class _Form(HTMLParser):
    """The first form of a page, filled in."""

    def __init__(self, user: str, password: str) -> None:
        super().__init__()
        self._filled = {"text": user, "password": password}
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self._is_over = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read the form and its inputs."""
        found = {name: value or "" for name, value in attrs}
        if tag == "form" and self.action is None:
            self.action = found.get("action", "")
        elif tag == "input" and self.action is not None and not self._is_over and "name" in found:
            kind = found.get("type", "text")
            if kind != "checkbox":
                self.fields[found["name"]] = self._filled.get(kind, found.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        """End the form."""
        self._is_over = self._is_over or (tag == "form" and self.action is not None)


async def authorize(url: str, *, redirect_uri: str, user: str, password: str) -> dict[str, str]:
    """Sign in and consent at an authorization URL; return the parameters of the address to which the issuer leads."""
    # On a machine that stands still for seconds, the provider may be closing a connection that was idle.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS, limits=limits) as browser:
        answer = await browser.get(url)
        for _ in range(_MAX_STEPS):
            if answer.is_redirect:
                location = urljoin(str(answer.url), answer.headers["Location"])
                if location.startswith(f"{redirect_uri}?"):
                    return dict(parse_qsl(urlsplit(location).query))
                answer = await browser.get(location)
                continue
            assert answer.status_code == 200, answer.text
            form = _Form(user, password)
            form.feed(answer.text)
            assert form.action is not None, answer.text
            answer = await browser.post(urljoin(str(answer.url), form.action), data=form.fields)
    raise AssertionError(f"the issuer does not send the browser back: {answer.url}")
