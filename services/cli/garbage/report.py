"""The output of a collection of garbage, printed in the order in which it comes, however long the list is."""

import json
from collections.abc import Mapping
from typing import Any

import typer
from towpath.storage.v1 import storage_service_pb2 as pb

from services.cli.admin.records import moment, object_record
from services.cli.output import Listing, show_record

_COLUMNS = ("oid", "size", "created_at")


class Report:
    """Prints a collection: fields, and a table between them; or one JSON object with the list in `objects`."""

    def __init__(self, repository: str, *, is_listed: bool, as_json: bool) -> None:
        self._repository = repository
        self._as_json = as_json
        self._listing = Listing(_COLUMNS, as_json=False) if is_listed and not as_json else None
        self._is_listed = is_listed
        self._count = 0
        self._summary: dict[str, Any] = {}

    def summary(self, summary: pb.GarbageSummary) -> None:
        """Print the summary, which comes first; as JSON, with what follows it, because that may be an error."""
        self._summary = {"repository": self._repository, **garbage_record(summary)}
        if not self._as_json:
            show_record(self._summary, as_json=False)

    def garbage(self, garbage: pb.GarbageList) -> None:
        """Print a part of the list."""
        records = [object_record(stored) for stored in garbage.objects]
        if self._listing is not None:
            self._listing.add(records)
            return
        if not self._count:
            typer.echo("{\n" + _fields(self._summary) + ',\n  "objects": [', nl=False)
        for record in records:
            typer.echo(f"{',' if self._count else ''}\n    {json.dumps(record)}", nl=False)
            self._count += 1

    def end(self, result: pb.CollectionResult | None) -> None:
        """Print the end, and the result where garbage was to be removed."""
        fields = {} if result is None else collection_record(result)
        if not self._as_json:
            if self._listing is not None:
                self._listing.end()
            if result is None:
                typer.echo("Nothing was removed; --apply removes the garbage.")
            else:
                show_record(fields, as_json=False)
        elif self._count:
            typer.echo("\n  ]" + (",\n" + _fields(fields) if fields else "") + "\n}")
        else:
            listed: dict[str, Any] = {"objects": []} if self._is_listed else {}
            show_record({**self._summary, **listed, **fields}, as_json=True)


def garbage_record(summary: pb.GarbageSummary) -> dict[str, Any]:
    """Return the printed fields of the summary of a collection; sizes are in bytes."""
    record: dict[str, Any] = {
        "garbage_count": summary.garbage_count,
        "garbage_bytes": summary.garbage_bytes,
        "freed_bytes": summary.freed_bytes,
    }
    if summary.garbage_count:
        record |= {
            "oldest_created_at": moment(summary.oldest_created_at),
            "newest_created_at": moment(summary.newest_created_at),
        }
    return record | {
        "held_count": summary.held_count,
        "held_bytes": summary.held_bytes,
        "grace_count": summary.grace_count,
        "retained_count": summary.retained_count,
        "retained_held_count": summary.retained_held_count,
        "returning_count": summary.returning_count,
    }


def collection_record(result: pb.CollectionResult) -> dict[str, Any]:
    """Return the printed fields of the result of a collection; sizes are in bytes."""
    return {
        "removed_count": result.removed_count,
        "removed_bytes": result.removed_bytes,
        "returned_count": result.returned_count,
    }


def _fields(record: Mapping[str, Any]) -> str:
    """Return the fields of a JSON object without its braces."""
    return json.dumps(record, indent=2, ensure_ascii=False)[2:-2]
