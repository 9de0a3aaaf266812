"""The list of objects in a backup: a line each, `OID<tab>SIZE<tab>NAME`, ascending by oid."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from services.backup.errors import BackupError
from services.common.concurrency.files import open_file
from services.common.oid import is_oid
from services.storage.blob_names import is_name, oid_of

KEPT = "(removed_at IS NULL OR bin_until IS NOT NULL)"
"""The condition that a repository holds an object, or has it in its bin."""

QUERY = (
    "SELECT DISTINCT ON (o.oid) o.oid, o.size, coalesce(c.name, o.oid)"  # noqa: S608 - our words
    " FROM storage.objects o LEFT JOIN storage.contents c USING (oid) LEFT JOIN storage.stores s ON s.id = c.store_id"
    f" WHERE {KEPT} ORDER BY o.oid, c.is_doubted, s.is_primary DESC NULLS LAST, c.store_id"
)
"""The query whose rows COPY writes as this list: if several stores have an object, with its best blob name."""


class Entry(NamedTuple):
    """An object and its blob name."""

    oid: str
    size: int
    name: str


def read_list(path: Path) -> Iterator[Entry]:
    """Yield the entries of a list. Raises `BackupError` for a line that is malformed or out of order.

    A line of an older backup has no name, because the blob name was the oid then.
    """
    last = ""
    with open_file(path) as file:
        for number, line in enumerate(file, start=1):
            oid, size, name = (*line.decode(errors="replace").rstrip("\n").split("\t", 2), "", "")[:3]
            name = name or oid
            if not is_oid(oid) or not (size.isascii() and size.isdigit()) or not is_name(name) or oid_of(name) != oid:
                raise BackupError(f"objects: line {number}: expected an oid, a size and a name")
            if oid <= last:
                raise BackupError(f"objects: line {number}: expected an oid after {last}, got {oid}")
            last = oid
            yield Entry(oid, int(size), name)
