"""The list of objects in a backup: a line each, `OID<tab>SIZE`, ascending by oid."""

from collections.abc import Iterator
from pathlib import Path

from services.backup.errors import BackupError
from services.common.oid import is_oid

QUERY = "SELECT DISTINCT oid, size FROM storage.objects WHERE removed_at IS NULL ORDER BY oid, size"
"""What Postgres' COPY writes as such a list."""


def read_list(path: Path) -> Iterator[tuple[str, int]]:
    """Return the oids and sizes of a list. Raises `BackupError` for a line that is none, or out of order."""
    last = ""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            oid, _, size = line.decode(errors="replace").rstrip("\n").partition("\t")
            if not is_oid(oid) or not (size.isascii() and size.isdigit()):
                raise BackupError(f"objects: line {number}: expected an oid and a size")
            if oid <= last:
                raise BackupError(f"objects: line {number}: expected an oid after {last}, got {oid}")
            last = oid
            yield oid, int(size)
