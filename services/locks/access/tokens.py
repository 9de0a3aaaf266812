"""The secrets of tokens. Only the hash of a secret is stored."""

import hashlib
import secrets

from services.common.token_prefix import TOKEN_PREFIX

_BYTES = 32


def new_secret() -> str:
    """Return a new secret: 256 random bits in text that is easy to copy and to recognise."""
    return f"{TOKEN_PREFIX}{secrets.token_urlsafe(_BYTES)}"


def token_hash(secret: str) -> bytes:
    """Return the SHA-256 of a secret. The secret is long and random: it needs no salt and no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", errors="surrogatepass")).digest()
