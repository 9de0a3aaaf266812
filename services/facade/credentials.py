"""What an Authorization header shows (protocol: "Authentication", rule 1): the token, in Basic or Bearer."""

import base64
import binascii
import re

_BEARER = re.compile(r"[\x21-\x7e]+", re.ASCII)


def parse(header: str) -> str | None:
    """Return the token of an Authorization header; None where it is malformed or of another scheme.

    With Basic it is the password, under any user name; it is UTF-8 and may contain colons.
    """
    scheme, _, value = header.strip().partition(" ")
    value = value.strip()
    if scheme.lower() == "basic":
        return _password(value)
    if scheme.lower() == "bearer" and _BEARER.fullmatch(value):
        return value
    return None


def bearer(header: str) -> str | None:
    """Return the token of an Authorization header with the scheme Bearer; None for any other."""
    return parse(header) if header.lstrip()[:7].lower() == "bearer " else None


def _password(encoded: str) -> str | None:
    try:
        # The user name does not matter, and neither does its encoding.
        _, _, password = base64.b64decode(encoded, validate=True).partition(b":")
        return password.decode() or None
    except (binascii.Error, ValueError):
        return None
