"""Verification of JSON Web Tokens (RFC 7519, RFC 8725, OpenID Connect Core 3.1.3.7)."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError

from services.locks.issuers.json_web_tokens import Unverified
from services.locks.issuers.keys import ALL_ALGORITHMS, SigningKey
from services.locks.issuers.refusal import refused

NOT_BEFORE_LEEWAY_SECONDS = 30
"""The seconds by which the clock of an issuer may be ahead; a token that has expired has no leeway."""

_MAX_TIME = 253_402_300_799
_MAX_SHOWN = 100
# Types of tokens that are made to be credentials; such as `logout+jwt` is none.
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt", "application/jwt"})


def check_header(token: Unverified) -> tuple[str, str]:
    """Return the algorithm and the key id in a header. Raises `Unauthenticated` for one that is not acceptable."""
    header = token.header
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALL_ALGORITHMS:
        expected = ", ".join(sorted(ALL_ALGORITHMS))
        raise refused(f"alg: the JSON Web Token has {_shown(algorithm)}, expected one of {expected}")
    if "crit" in header or "b64" in header:
        raise refused("crit: the JSON Web Token asks for an extension that is not known")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise refused(f"typ: the JSON Web Token is {_shown(kind)}, which is no credential")
    key_id = header.get("kid", "")
    if not isinstance(key_id, str):
        raise refused("kid: expected a text")
    return algorithm, key_id


def check_claims(claims: Mapping[str, Any], *, audiences: Collection[str], now: float) -> float:
    """Return the time of the expiry, in seconds since 1970, if the token is for one of the audiences and valid now.

    Raises `Unauthenticated`. The issuer was found by the claim `iss`, and needs no further check.
    """
    named = claims.get("aud")
    if named is None:
        raise refused("aud: the JSON Web Token has none, and is not for this server")
    values = named if isinstance(named, list) else [named]
    if not any(isinstance(value, str) and value in audiences for value in values):
        raise refused(f"aud: the JSON Web Token is for {_shown(named)}, and not for this server")
    expires_at = _time(claims, "exp")
    if expires_at is None:
        raise refused("exp: the JSON Web Token never expires, expected one that does")
    if expires_at <= now:
        raise refused("the JSON Web Token has expired", expired="true")
    for claim in ("nbf", "iat"):
        begins_at = _time(claims, claim)
        if begins_at is not None and begins_at > now + NOT_BEFORE_LEEWAY_SECONDS:
            raise refused(f"{claim}: the JSON Web Token is valid in {begins_at - now:.0f} s only; do the clocks agree?")
    return expires_at


def check_signature(token: str, key: SigningKey, algorithm: str) -> None:
    """Raise `Unauthenticated` unless the key has signed the token with the algorithm."""
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    registry.max_header_length = registry.max_payload_length = registry.max_signature_length = len(token)
    try:
        with warnings.catch_warnings():
            # The library prefers the name Ed25519 to EdDSA, and issuers use either.
            warnings.simplefilter("ignore")
            jws.deserialize_compact(token, key.key, algorithms=[algorithm], registry=registry)
    except (JoseError, ValueError) as error:
        raise refused("the signature of the JSON Web Token is not that of its issuer") from error


def groups_in(claims: Mapping[str, Any], claim: str) -> Sequence[str]:
    """Return the groups that a claim names: a text, or a list of texts."""
    value = claims.get(claim) if claim else None
    return [group for group in (value if isinstance(value, list) else [value]) if isinstance(group, str)]


def _time(claims: Mapping[str, Any], claim: str) -> float | None:
    value = claims.get(claim)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_TIME:
        raise refused(f"{claim}: expected seconds since 1970")
    return float(value)


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
