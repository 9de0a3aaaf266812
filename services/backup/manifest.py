"""The manifest of a backup: its parts, and the digests by which each part is verified."""

import hashlib
import json
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.backup.errors import BackupError

Name = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*$", max_length=63)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TableFile(_Part):
    """The rows of a table, in the text format of Postgres' COPY, with the columns in this order."""

    schema_name: Name
    table: Name
    columns: tuple[Name, ...]
    rows: Count
    sha256: Digest

    @property
    def name(self) -> str:
        """The table's name, with its schema's."""
        return f"{self.schema_name}.{self.table}"


class Sequence(_Part):
    """The value of a sequence at the snapshot or later; ids up to this value may have been assigned."""

    schema_name: Name
    name: Name
    last_value: int


class LostObject(_Part):
    """An object whose bytes the stack itself had lost before the backup was made."""

    oid: Digest
    problem: str


class ObjectList(_Part):
    """The list of all objects that repositories hold; with `copied`, the backup has their bytes, except lost ones."""

    count: Count
    bytes: Count
    sha256: Digest
    copied: bool
    lost: tuple[LostObject, ...]


class Manifest(_Part):
    """The description of a backup. The parts that a later backup replaces are in a folder named `snapshot`."""

    format: Literal[1]
    created_at: datetime
    towpath: str
    snapshot: Annotated[str, Field(pattern=r"^[0-9TZ]{16}-[0-9a-f]{8}$")]
    revisions: dict[Name, str]
    tables: tuple[TableFile, ...]
    sequences: tuple[Sequence, ...]
    objects: ObjectList

    def render(self) -> tuple[str, str]:
        """Return the text of the manifest's file, and the digest that it ends with."""
        content = self.model_dump(mode="json")
        digest = _digest(content)
        return json.dumps({**content, "digest": digest}, indent=1) + "\n", digest

    def summary(self, digest: str) -> dict[str, object]:
        """Return the first fields of the report of a command on the backup with this digest."""
        return {
            "created_at": f"{self.created_at:%Y-%m-%dT%H:%M:%SZ}",
            "digest": digest,
            "rows": sum(table.rows for table in self.tables),
            "objects": self.objects.count,
            "bytes": self.objects.bytes,
        }

    @classmethod
    def parse(cls, text: str) -> tuple[Self, str]:
        """Return the manifest and its digest. Raises `BackupError` if the text is not as `render` made it."""
        try:
            content = json.loads(text)
            digest = content.pop("digest")
        except (ValueError, AttributeError, TypeError, KeyError):
            raise BackupError("manifest.json: expected a manifest with its digest") from None
        if content.get("format") != 1:
            raise BackupError(f"manifest.json: expected the format 1, got {content.get('format')!r}")
        if _digest(content) != digest:
            raise BackupError("manifest.json: it is not what was written: its digest differs")
        try:
            return cls.model_validate(content), digest
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            raise BackupError(f"manifest.json: {where}: {error.errors()[0]['msg'].lower()}") from None


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
