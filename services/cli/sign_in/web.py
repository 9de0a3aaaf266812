"""Requests for JSON by the standard library, which starts faster than any other: bounded in bytes and time."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from threading import Thread
from typing import Any

_SECONDS = 15.0
_MAX_BYTES = 256 * 1024
_MAX_MESSAGE = 1_000


class WebError(Exception):
    """A request that failed; the message says why, and `is_refusal` that the server refused, instead of being away."""

    def __init__(self, message: str, *, code: str = "", is_refusal: bool = False) -> None:
        # Parts of it are words of the server, and the credential helper writes it to a terminal.
        super().__init__("".join(c if c.isprintable() else " " for c in message[:_MAX_MESSAGE]))
        self.code = code
        self.is_refusal = is_refusal


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def is_acceptable(url: str) -> bool:
    """Return whether credentials may go to a URL: by https, or by http to this computer."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1"))


def get_json(url: str) -> dict[str, Any]:
    """Return the JSON object at a URL. Raises `WebError`."""
    return _json_object(url, _ask(url))


def post_form(url: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON object that answers a form. Raises `WebError`, whose `code` is the error of OAuth, if any."""
    return _json_object(url, _ask(url, fields))


def send_form(url: str, fields: Mapping[str, str]) -> None:
    """Send a form whose answer has nothing to say. Raises `WebError` if it is refused."""
    _ask(url, fields)


def _ask(url: str, fields: Mapping[str, str] | None = None) -> bytes:
    """Return the body of a good answer, and at most a byte more than an answer may have. Raises `WebError`."""
    if not is_acceptable(url):
        raise WebError(f"{url}: expected https, or http to this computer")
    found: list[bytes | WebError] = []

    def ask() -> None:
        try:
            found.append(_answer(url, fields))
        except WebError as error:
            found.append(error)

    # In a thread, because the timeout of a connection is that of each byte.
    thread = Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    if not found:
        raise WebError(f"{url}: no answer within {_SECONDS:.0f} s")
    if isinstance(found[0], WebError):
        raise found[0]
    return found[0]


def _answer(url: str, fields: Mapping[str, str] | None) -> bytes:
    body = None if fields is None else urllib.parse.urlencode(fields).encode()
    try:
        request = urllib.request.Request(url, body, {"Accept": "application/json"})  # noqa: S310 - `_ask` looks at it
        with _opener.open(request, timeout=_SECONDS) as response:
            read: bytes = response.read(_MAX_BYTES + 1)
            return read
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(url, error) from error
    except urllib.error.URLError as error:
        raise WebError(f"{url}: {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        # ValueError: the port is no number, or the URL has characters that HTTP cannot send.
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
    return WebError(f"{url}: {message}", code=code, is_refusal=is_refusal)
