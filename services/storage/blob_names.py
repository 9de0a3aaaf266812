"""Blob names: the names under which backends store blobs."""

import re
import secrets

_NAME = re.compile(r"[0-9a-f]{64}(?:\.[0-9a-f]{16})?")


def new_name(oid: str) -> str:
    """Return a blob name for an object that no other upload ever has.

    Because of that, a late effect on one upload's blob, such as a request that a store is slow to execute or a process
    that was paused, cannot touch the blob of another upload.
    """
    return f"{oid}.{secrets.token_hex(8)}"


def checked(name: str) -> str:
    """Return a blob name. Raises ValueError for anything else, so that nothing else becomes part of a path or a key.

    The name may be a bare oid because older versions named the files of objects after their oids alone.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"name: expected an oid, a dot and 16 hexadecimal digits, got {name[:100]!r}")
    return name


def is_name(text: str) -> bool:
    """Return whether the text is a blob name."""
    return _NAME.fullmatch(text) is not None


def oid_of(name: str) -> str:
    """Return the oid of the object to which a blob name belongs."""
    return checked(name)[:64]


def place_of(name: str) -> tuple[str, str, str]:
    """Return a blob's place below a backend's root: two folder names, which keep each folder small, and the name."""
    return checked(name)[:2], name[2:4], name
