"""The form of an SSH key's fingerprint."""

import re

_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}", re.ASCII)


def is_fingerprint(value: object) -> bool:
    """Return whether `value` is the SHA-256 of a key as OpenSSH prints it."""
    return isinstance(value, str) and _FINGERPRINT.fullmatch(value) is not None
