"""Tokens in Authorization headers, in Basic or Bearer (docs/protocol.md, "Authentication", rule 1)."""

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from services.common.token_prefix import TOKEN_PREFIX

_MAX_CREDENTIALS = 4
_BEARER = re.compile(r"[\x21-\x7e]+", re.ASCII)


def split_values(headers: Sequence[str]) -> Iterator[str]:
    """Yield the single values of headers, because a client or proxy may have joined several by commas."""
    for header in headers:
        yield from (value for part in header.split(",") if (value := part.strip()))


def tokens(header: str) -> tuple[str, ...]:
    """Return the possible tokens of an Authorization header, the likeliest first.

    A header that is malformed or has another scheme has none. With Basic the token is the password, under any user
    name; the password is UTF-8 and may contain colons. A user name with the prefix of tokens is a possible token too.
    """
    scheme, _, value = header.strip().partition(" ")
    value = value.strip()
    if scheme.lower() == "basic":
        return _basic(value)
    if scheme.lower() == "bearer" and _BEARER.fullmatch(value):
        return (value,)
    return ()


def presented_tokens(headers: Sequence[str]) -> Iterator[str]:
    """Yield the possible tokens in the first `_MAX_CREDENTIALS` Authorization values that contain any."""
    values = filter(None, map(tokens, split_values(headers)))
    return chain.from_iterable(islice(values, _MAX_CREDENTIALS))


def bearer(header: str) -> str | None:
    """Return the token of an Authorization header with the scheme Bearer; None for any other."""
    return next(iter(tokens(header)), None) if header.lstrip()[:7].lower() == "bearer " else None


def _basic(encoded: str) -> tuple[str, ...]:
    try:
        user, _, password = base64.b64decode(encoded, validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return ()
    name = _text(user)
    return tuple(filter(None, (_text(password), name if name.startswith(TOKEN_PREFIX) else "")))


def _text(data: bytes) -> str:
    """Return the text of UTF-8 bytes; an empty text for another encoding, because user names may have another."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""
