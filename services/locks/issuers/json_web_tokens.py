"""The form of JSON Web Tokens: their recognition, and their parts before anything is verified."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json

from services.locks.issuers.refusal import refused

MAX_TOKEN_BYTES = 16 * 1024

_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", re.ASCII)
# The beginning of a JSON object in base64url, `{"`, by which a token is known that is too long to be decoded.
_OBJECT = "eyJ"


class Unverified(NamedTuple):
    """The header and the claims of a token that anybody may have written."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]

    def text(self, claim: str) -> str:
        """Return a claim that is a text, else an empty text."""
        value = self.claims.get(claim)
        return value if isinstance(value, str) else ""


def is_json_web_token(credential: str) -> bool:
    """Return whether a credential is three parts in base64url, the first one a JSON object with `alg`."""
    if _COMPACT.fullmatch(credential) is None:
        return False
    if len(credential) > MAX_TOKEN_BYTES:
        return credential.startswith(_OBJECT)
    header = _json_object(credential.partition(".")[0])
    return header is not None and "alg" in header


def parse(token: str) -> Unverified:
    """Return the parts of a token that `is_json_web_token` accepts. Raises `Unauthenticated` (BAD_CREDENTIALS)."""
    if len(token) > MAX_TOKEN_BYTES:
        raise refused(
            f"the JSON Web Token is longer than {MAX_TOKEN_BYTES} bytes; have the issuer name fewer groups in it "
            "(docs/identity.md)"
        )
    header, claims, _ = token.split(".")
    parsed = Unverified(_json_object(header) or {}, _json_object(claims) or {})
    if not parsed.claims:
        raise refused("the JSON Web Token has no claims")
    return parsed


def _json_object(part: str) -> Mapping[str, Any] | None:
    try:
        value = from_json(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)), allow_inf_nan=False)
    except (binascii.Error, ValueError):
        return None
    return value if isinstance(value, dict) else None
