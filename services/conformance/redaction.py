"""Short texts of requests and answers, in which no credential stands."""

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from services.conformance import strict_json

_MAX_CHARACTERS = 400
_HIDDEN = "***"


class Redactor:
    """Shortens texts for reports. Secrets, the values of action headers and the queries of URLs are left out."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first: one may be a part of another.
        self._secrets = sorted((secret for secret in secrets if secret), key=len, reverse=True)

    def holds_secret(self, text: str) -> bool:
        """Tell whether a secret stands in a text."""
        return any(secret in text for secret in self._secrets)

    def text(self, text: str) -> str:
        """Return a text without the secrets, in one line of limited length."""
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        text = " ".join(text.split())
        return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."

    def body(self, content: bytes) -> str:
        """Return a body in short: JSON with its action headers hidden, or the first of other text."""
        if not content:
            return ""
        try:
            shown = json.dumps(_masked(strict_json.parse(content)), ensure_ascii=False)
        except ValueError:
            shown = content[:_MAX_CHARACTERS].decode(errors="replace")
            if not shown.isprintable() and b"\0" in content[:_MAX_CHARACTERS]:
                shown = f"({len(content)} bytes)"
        return self.text(shown)

    def url(self, url: str) -> str:
        """Return a URL without its query and user."""
        return self.text(_plain(url))


def _plain(url: str) -> str:
    try:
        parts = urlsplit(url)
        query = f"?{_HIDDEN}" if parts.query else ""
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{query}" if parts.scheme else url
    except ValueError:
        return "(no URL)"


def _masked(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {name: _masked_member(name, member) for name, member in value.items()}
    return [_masked(member) for member in value] if isinstance(value, list) else value


def _masked_member(name: str, member: Any) -> Any:  # noqa: ANN401 - any JSON
    if name == "header" and isinstance(member, dict):
        return dict.fromkeys(member, _HIDDEN)
    return _plain(member) if name == "href" and isinstance(member, str) else _masked(member)
