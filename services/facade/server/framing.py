"""Framing of requests (RFC 9112): where one ends, and which heads leave that in doubt."""

import json
from collections.abc import Sequence
from http import HTTPStatus

import httptools

from services.facade.web.media_types import GENERIC

# Each request ends with an empty line, or with the last byte of a body whose length is known.
_EMPTY_LINE = b"\n\r\n"
_PART_BYTES = 64 * 1024

Headers = Sequence[tuple[bytes, bytes]]


def end_of_part(data: bytes, begin: int, *, before: bytes, body_left: int | None) -> int:
    """Return where the bytes from `begin` end that may belong to the request that is being parsed.

    `before` are the last two bytes before `data`, and `body_left` are the bytes of its body that are yet to come: 0 in
    a head, and None where the body is in chunks. Of these two, at most 64 KiB are returned.
    """
    if body_left:
        return min(len(data), begin + body_left)
    if begin == 0:
        # An empty line whose beginning came before.
        for size in (1, 2):
            if (before + data[:size]).endswith(_EMPTY_LINE):
                return size
    # It may have begun in the part before.
    found = data.find(_EMPTY_LINE, max(0, begin - len(_EMPTY_LINE) + 1))
    return min(len(data) if found < 0 else found + len(_EMPTY_LINE), begin + _PART_BYTES)


def head_without_upgrade(parser: httptools.HttpRequestParser, url: bytes, headers: Headers) -> bytes:
    """Return the head that a parser has read, as it would be without the wish for another protocol."""
    lines = [b"%b %b HTTP/%b" % (parser.get_method(), url, parser.get_http_version().encode())]
    for name, value in headers:
        if name == b"connection":
            kept = [
                token for token in value.split(b",") if token.strip().lower() not in (b"upgrade", b"http2-settings")
            ]
            value = b",".join(kept)
        if name != b"upgrade":
            lines.append(b"%b: %b" % (name, value))
    return b"\r\n".join((*lines, b"", b""))


def refusal_of(version: str, headers: Headers) -> tuple[HTTPStatus, str] | None:
    """Return the status and the message that refuse a head, or None if the request can be served (RFC 9112)."""
    hosts = sum(name == b"host" for name, _ in headers)
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        return HTTPStatus.BAD_REQUEST, f"host: expected one, found {hosts or 'none'}"
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and (codings != [b"chunked"] or version == "1.0"):
        return HTTPStatus.NOT_IMPLEMENTED, "transfer-encoding: expected chunked, in HTTP/1.1"
    return None


def body_bytes(headers: Headers) -> int | None:
    """Return the length of the body after a head that the parser has accepted; None where the body is in chunks."""
    if any(name == b"transfer-encoding" for name, _ in headers):
        return None
    return next((int(value) for name, value in headers if name == b"content-length"), 0)


def error_answer(status: HTTPStatus, message: str, request_id: str) -> bytes:
    """Return an answer with an Error body, after which the connection ends; it costs no look at the request."""
    body = json.dumps({"message": message, "request_id": request_id}).encode()
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {GENERIC.media_type}",
        f"Content-Length: {len(body)}",
        f"X-Request-Id: {request_id}",
        "Connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body
