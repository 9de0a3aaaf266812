"""The objects that the pointers of a git repository name, in a spool."""

import re
from typing import NamedTuple

from services.cli.pointers.git import read_small_blobs
from services.cli.pointers.oid_spool import OidSpool

_ANY_OID = re.compile(rb"sha256:([0-9a-fA-F]{64})")
_OID = re.compile(rb"^oid sha256:([0-9a-f]{64})\r?$", re.MULTILINE)
_SIZE = re.compile(rb"^size ([0-9]{1,18})\r?$", re.MULTILINE)
_VERSION = b"version "
SIZE_BYTES = 8
"""The bytes of a size that stands behind an oid in a spool."""


class Pointer(NamedTuple):
    """The object that a pointer names: its oid, and its size in bytes."""

    oid: str
    size: int


async def add_named(source: str, spool: OidSpool) -> None:
    """Add the oid of each object that the repository in a folder or at a URL may name.

    It is lenient, because keeping too much does no harm. Raises the errors of `read_small_blobs`, also where the refs
    change meanwhile.
    """

    def add(content: bytes) -> None:
        for oid in _ANY_OID.findall(content):
            spool.add(bytes.fromhex(oid.decode()))

    await read_small_blobs(source, add)


async def add_pointers(source: str, spool: OidSpool) -> None:
    """Add the oid and the size of each pointer of the repository in a folder or at a URL, whose refs may change.

    Raises the errors of `read_small_blobs`.
    """

    def add(content: bytes) -> None:
        if (pointer := parse_pointer(content)) is not None:
            spool.add(bytes.fromhex(pointer.oid) + pointer.size.to_bytes(SIZE_BYTES))

    await read_small_blobs(source, add, may_change=True)


def parse_pointer(content: bytes) -> Pointer | None:
    """Return the object that a file names if it is a pointer: a version first, then an oid of SHA-256 and a size."""
    if not content.startswith(_VERSION):
        return None
    oid, size = _OID.search(content), _SIZE.search(content)
    return Pointer(oid[1].decode(), int(size[1])) if oid is not None and size is not None else None
