"""What an Authorization header shows (protocol: "Authentication", rule 1): the token, in Basic or Bearer."""

import base64
import binascii
import re
from collections.abc import Iterator, Sequence

from services.common.token_prefix import TOKEN_PREFIX

_BEARER = re.compile(r"[\x21-\x7e]+", re.ASCII)


def split_values(headers: Sequence[str]) -> Iterator[str]:
    """Yield the single values of headers: whoever adds one may have joined it to what was there by a comma."""
    for header in headers:
        yield from (value for part in header.split(",") if (value := part.strip()))


def tokens(header: str) -> tuple[str, ...]:
    """Return what may be the token of an Authorization header, the likeliest first.

    Nothing is where the header is malformed or of another scheme. With Basic it is the password, under any user name;
    it is UTF-8 and may contain colons. A user name that begins as tokens do may be it too.
    """
    scheme, _, value = header.strip().partition(" ")
    value = value.strip()
    if scheme.lower() == "basic":
        return _basic(value)
    if scheme.lower() == "bearer" and _BEARER.fullmatch(value):
        return (value,)
    return ()


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
    """Return what is UTF-8; nothing, where it is in another encoding, as user names may be."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""
