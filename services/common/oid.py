"""The form of an oid (docs/protocol.md, "Batch request object entry"; hash algorithm sha256)."""

import re

_OID = re.compile(r"[0-9a-f]{64}", re.ASCII)


def is_oid(value: object) -> bool:
    """Return whether `value` is a string of 64 lower-case hexadecimal digits."""
    return isinstance(value, str) and _OID.fullmatch(value) is not None
