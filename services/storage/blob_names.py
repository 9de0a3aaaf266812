"""The names under which backends hold bytes."""

import re
import secrets

_NAME = re.compile(r"[0-9a-f]{64}(?:\.[0-9a-f]{16})?")


def new_name(oid: str) -> str:
    """Return a name for bytes of an object, which no other upload ever has.

    So whatever happens late to one upload's bytes, a request that a store is slow to carry out or a process that
    was paused, cannot touch those of another.
    """
    return f"{oid}.{secrets.token_hex(8)}"


def checked(name: str) -> str:
    """Return a name. Raises ValueError for anything else: nothing else becomes part of a path or a key.

    The name may be an oid alone: so were the files named of objects that older versions wrote.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"name: expected an oid, a dot and 16 hexadecimal digits, got {name[:100]!r}")
    return name


def is_name(text: str) -> bool:
    """Tell whether the text is a name."""
    return _NAME.fullmatch(text) is not None


def oid_of(name: str) -> str:
    """Return the oid of the object whose bytes the name is for."""
    return checked(name)[:64]


def place_of(name: str) -> tuple[str, str, str]:
    """Return where bytes lie below a backend's root: two folders that keep each of them small, and the name."""
    return checked(name)[:2], name[2:4], name
