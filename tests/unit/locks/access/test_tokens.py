"""The secrets of tokens."""

from services.locks.access.tokens import new_secret, token_hash


def test_secrets_are_long_and_different() -> None:
    """At least 160 random bits; 256 are 43 characters of base64."""
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert all(secret.startswith("tp_") and len(secret) == 46 for secret in secrets)


def test_the_hash_is_of_the_whole_secret() -> None:
    """Any text has a hash, and another text another one."""
    assert len(token_hash("tp_x")) == 32
    assert token_hash("tp_x") != token_hash("tp_x ")
    assert token_hash("") != token_hash("\0")
