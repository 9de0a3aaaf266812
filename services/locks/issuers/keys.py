"""Public keys of an issuer, and the algorithms for which each may be used (RFC 7517, RFC 8725)."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

ALGORITHMS: Mapping[str, frozenset[str]] = {
    "RSA": frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    "EC": frozenset({"ES256", "ES384", "ES512"}),
    "OKP": frozenset({"EdDSA", "Ed25519"}),
}
"""The algorithms by type of key. There is none with a shared secret, and not `none`."""

ALL_ALGORITHMS = frozenset[str]().union(*ALGORITHMS.values())

_MAX_KEYS = 100
_MIN_RSA_BITS = 2_048
_PUBLIC_MEMBERS = ("kty", "kid", "n", "e", "crv", "x", "y")
_TYPES: Mapping[str, type[RSAKey | ECKey | OKPKey]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}


class SigningKey(NamedTuple):
    """A public key with its id, which may be empty, and the algorithms for which it may be used."""

    id: str
    algorithms: frozenset[str]
    key: RSAKey | ECKey | OKPKey


def parse_key_set(document: object) -> Sequence[SigningKey]:
    """Return the keys for signatures in a JSON Web Key Set; others are left out. Raises ValueError if there is none."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        listed = []
    keys = [key for entry in listed[:_MAX_KEYS] if isinstance(entry, dict) and (key := _signing_key(entry)) is not None]
    if not keys:
        raise ValueError("expected at least one public key for signatures, of RSA (2048 bits or more), EC or OKP")
    return keys


def _signing_key(entry: Mapping[str, Any]) -> SigningKey | None:
    kind = entry.get("kty")
    operations = entry.get("key_ops", ["verify"])
    if not isinstance(kind, str) or kind not in _TYPES:
        return None
    if entry.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return None
    if kind == "OKP" and entry.get("crv") != "Ed25519":
        return None
    algorithms = ALGORITHMS[kind]
    if (algorithm := entry.get("alg")) is not None:
        algorithms &= {algorithm} if isinstance(algorithm, str) else set()
    try:
        with warnings.catch_warnings():
            # A short key is refused below, and needs no warning.
            warnings.simplefilter("ignore")
            key = _TYPES[kind].import_key({name: entry[name] for name in _PUBLIC_MEMBERS if name in entry})
            bits = key.public_key.key_size if isinstance(key, RSAKey) else _MIN_RSA_BITS
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    if not algorithms or bits < _MIN_RSA_BITS:
        return None
    identifier = entry.get("kid")
    return SigningKey(identifier if isinstance(identifier, str) else "", algorithms, key)


def find_key(keys: Sequence[SigningKey], key_id: str, algorithm: str) -> SigningKey | None:
    """Return the key of that id for an algorithm; without an id, the only key that there is for the algorithm."""
    fitting = [key for key in keys if algorithm in key.algorithms and (not key_id or key.id == key_id)]
    return fitting[0] if len(fitting) == 1 or (fitting and key_id) else None
