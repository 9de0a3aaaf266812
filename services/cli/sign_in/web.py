"""Requests for JSON by the standard library, which starts faster than any other: bounded in bytes and time."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

_SECONDS = 15
_MAX_BYTES = 256 * 1024


class WebError(Exception):
    """A request that failed; the message says why, and `is_refusal` that the server refused, instead of being away."""

    def __init__(self, message: str, *, code: str = "", is_refusal: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.is_refusal = is_refusal


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def is_acceptable(url: str) -> bool:
    """Return whether credentials may go to a URL: by https, or by http to this computer."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1"))


def get_json(url: str) -> dict[str, Any]:
    """Return the JSON object at a URL. Raises `WebError`."""
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - see `_ask`
    return _json_object(url, _ask(request))


def post_form(url: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON object that answers a form. Raises `WebError`, whose `code` is the error of OAuth, if any."""
    return _json_object(url, _ask(_form(url, fields)))


def send_form(url: str, fields: Mapping[str, str]) -> None:
    """Send a form whose answer has nothing to say. Raises `WebError` if it is refused."""
    _ask(_form(url, fields))


def _form(url: str, fields: Mapping[str, str]) -> urllib.request.Request:
    body = urllib.parse.urlencode(fields).encode()
    return urllib.request.Request(url, body, {"Accept": "application/json"})  # noqa: S310 - see `_ask`


def _ask(request: urllib.request.Request) -> bytes:
    """Return the body of a good answer, and at most a byte more than an answer may have. Raises `WebError`."""
    url = request.full_url
    if not is_acceptable(url):
        raise WebError(f"{url}: expected https, or http to this computer")
    try:
        with _opener.open(request, timeout=_SECONDS) as response:
            body: bytes = response.read(_MAX_BYTES + 1)
            return body
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(url, error) from error
    except urllib.error.URLError as error:
        raise WebError(f"{url}: {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise WebError(f"{url}: {error}") from error


def _json_object(url: str, body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body) if len(body) <= _MAX_BYTES else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise WebError(f"{url}: the answer is no JSON object of at most {_MAX_BYTES} bytes")
    return value


def _refusal(url: str, error: urllib.error.HTTPError) -> WebError:
    try:
        told = _json_object(url, error.read(_MAX_BYTES + 1))
    except (WebError, OSError, HTTPException):
        told = {}
    code = str(told.get("error", ""))
    message = str(told.get("error_description") or told.get("message") or code or f"status {error.code}")
    is_refusal = 400 <= error.code < 500 and error.code not in (408, 429)
    # The credential helper writes it to a terminal.
    message = "".join(c if c.isprintable() else " " for c in message)
    return WebError(f"{url}: {message}", code=code, is_refusal=is_refusal)
