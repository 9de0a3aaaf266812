"""Patterns of claims, by which a grant of an issuer chooses tokens, and the refs in claims."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from services.common.errors import InvalidArgument, Reason
from services.locks.issuers.refusal import refused
from services.locks.ref_patterns import is_ref

_MAX_CLAIMS = 20
_MAX_CHARACTERS = 255
# Claims that are alike in all tokens of an issuer, or that differ in each and say nothing.
_ANYBODYS = frozenset({"iss", "aud", "exp", "nbf", "iat", "jti", "typ", "nonce", "auth_time"})
# Issuers whose tokens are those of everybody's repositories, each with the claims that say whose repository it is.
_SHARED: Mapping[str, frozenset[str]] = {
    # Not job_workflow_ref: the reusable workflow of a public repository may be called from any other.
    "token.actions.githubusercontent.com": frozenset(
        {"sub", "repository", "repository_id", "repository_owner", "repository_owner_id"}
    ),
    "gitlab.com": frozenset({"sub", "project_path", "project_id", "namespace_path", "namespace_id"}),
    "codeberg.org": frozenset({"sub", "repository", "repository_owner"}),
}


def check_claims(claims: Mapping[str, str], *, issuer_url: str) -> dict[str, str]:
    """Return the patterns of a new grant. Raises `InvalidArgument` if a token of anybody at the issuer would match."""
    if not 1 <= len(claims) <= _MAX_CLAIMS:
        raise _refuse(f"1 to {_MAX_CLAIMS} claims, such as repository=acme/film")
    for name, pattern in claims.items():
        if not all(0 < len(text) <= _MAX_CHARACTERS and text.isprintable() for text in (name, pattern)):
            raise _refuse(f"names and patterns of 1 to {_MAX_CHARACTERS} printable characters")
    deciding = {name: pattern for name, pattern in claims.items() if name not in _ANYBODYS and pattern.strip("*")}
    if not deciding:
        raise _refuse("a claim that not every token of the issuer has, such as repository=acme/film")
    owners = _SHARED.get(urlsplit(issuer_url).hostname or "")
    if owners and not any(_names_owner(pattern) for name, pattern in deciding.items() if name in owners):
        names = ", ".join(sorted(owners))
        raise _refuse(
            f"one of {names}, exact or with its owner before any *, such as acme/*: {issuer_url} serves everybody"
        )
    return dict(claims)


def _names_owner(pattern: str) -> bool:
    """Return whether all that a pattern matches has one owner: `acme/*` does, and `acme*` means `acme-evil/x` too."""
    beginning, star, _ = pattern.partition("*")
    return not star or "/" in beginning


def _refuse(expected: str) -> InvalidArgument:
    return InvalidArgument(Reason.INVALID_FIELD, f"claims: expected {expected}")


def matches(patterns: Mapping[str, str], claims: Mapping[str, Any]) -> bool:
    """Return whether each of the patterns matches the claim of its name; of a list, one value is enough."""
    return all(any(_matches(pattern, text) for text in _texts(claims.get(name))) for name, pattern in patterns.items())


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in map(_text, values) if text is not None]


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int) else None


def _matches(pattern: str, text: str) -> bool:
    """Return whether all of a text matches: `*` is any characters, everything else is itself."""
    first, *others = pattern.split("*")
    if not others:
        return text == pattern
    *middle, last = others
    if not text.startswith(first):
        return False
    at = len(first)
    for part in middle:
        if (found := text.find(part, at)) < 0:
            return False
        at = found + len(part)
    return len(text) - at >= len(last) and text.endswith(last)


def ref_in(claims: Mapping[str, Any], claim: str) -> str:
    """Return the ref that a claim names. Raises `Unauthenticated` for what is not the whole name of one ref."""
    ref = claims.get(claim)
    if not isinstance(ref, str):
        raise refused(f"{claim}: the JSON Web Token has no such claim, and may write the ref in it only")
    if not ref.startswith("refs/") or not is_ref(ref):
        raise refused(f"{claim}: expected the whole name of a ref, such as refs/heads/main, got {ref[:100]!a}")
    return ref
