"""The verification that a backup is unchanged: all but the bytes of objects, because copying hashes the bytes."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from services.backup.database import SCHEMAS
from services.backup.errors import BackupError
from services.backup.folder import BackupFolder
from services.backup.manifest import Manifest, TableFile
from services.backup.object_list import read_list
from services.common.concurrency.files import open_file
from services.database.migrations import knows


@dataclass(frozen=True)
class VerifiedBackup:
    """A backup whose manifest, tables and list are whole.

    `damaged` has the oids of objects whose bytes are not what was written, with the problem of each; `absent` has the
    oids of objects that the manifest records as lost.
    """

    folder: BackupFolder
    manifest: Manifest
    digest: str
    damaged: dict[str, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)

    @property
    def index(self) -> Path:
        """The folder of the tables and the list."""
        return self.folder.snapshot(self.manifest.snapshot)

    @property
    def object_list(self) -> Path:
        """The file of the list of objects."""
        return self.index / "objects"


def verify(path: Path, *, digest: str | None) -> VerifiedBackup:
    """Verify a backup, but of objects only the sizes. The function blocks, and therefore belongs in a thread.

    `digest` is the expected digest of the manifest, as the operator recorded it. Raises `BackupError` with every part
    that is missing or not what was written.
    """
    folder = BackupFolder(path)
    try:
        with open_file(folder.manifest) as file:
            text = file.read().decode()
    except (FileNotFoundError, NotADirectoryError):
        raise BackupError(f"{path}: no backup, as it has no manifest.json") from None
    except OSError as error:
        raise BackupError(f"manifest.json: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise BackupError("manifest.json: expected a manifest with its digest") from None
    manifest, found = Manifest.parse(text)
    if digest is not None and digest != found:
        raise BackupError(f"manifest.json: its digest is {found}, expected {digest}")
    _require_known(manifest)
    verified = VerifiedBackup(folder, manifest, found)
    problems = [problem for table in manifest.tables if (problem := _table_problem(verified.index, table))]
    problems += _list_problems(verified)
    if problems:
        raise BackupError("the backup is damaged:", problems)
    if manifest.objects.copied:
        lost = {lost.oid for lost in manifest.objects.lost}
        for oid, size, name in read_list(verified.object_list):
            there = folder.size_of(name)
            if there is None and oid in lost:
                verified.absent.add(oid)
            elif there is None:
                verified.damaged[oid] = "missing"
            elif there != size:
                verified.damaged[oid] = f"{there} bytes, expected {size}"
    return verified


def _require_known(manifest: Manifest) -> None:
    if set(manifest.revisions) != set(SCHEMAS):
        raise BackupError(f"manifest.json: revisions: expected those of {', '.join(sorted(SCHEMAS))}")
    for name, schema in SCHEMAS.items():
        if not knows(schema, manifest.revisions[name]):
            raise BackupError(
                f"the schema {name} was at revision {manifest.revisions[name]}, which this version does not know; "
                f"restore with Towpath {manifest.towpath} or newer"
            )


def _table_problem(index: Path, table: TableFile) -> str | None:
    digest, rows = hashlib.sha256(), 0
    try:
        with open_file(index / table.name) as file:
            for line in file:
                digest.update(line)
                rows += 1
    except OSError as error:
        return f"{table.name}: {(error.strerror or str(error)).lower()}"
    if digest.hexdigest() != table.sha256:
        return f"{table.name}: the table's rows are not what was written"
    return None if rows == table.rows else f"{table.name}: {rows} rows, expected {table.rows}"


def _list_problems(verified: VerifiedBackup) -> list[str]:
    expected = verified.manifest.objects
    try:
        with open_file(verified.object_list) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return [f"objects: {(error.strerror or str(error)).lower()}"]
    if found != expected.sha256:
        return ["objects: the list of objects is not what was written"]
    count = total = 0
    for entry in read_list(verified.object_list):
        count, total = count + 1, total + entry.size
    if (count, total) != (expected.count, expected.bytes):
        return [f"objects: {count} objects of {total} bytes, expected {expected.count} of {expected.bytes}"]
    return []
