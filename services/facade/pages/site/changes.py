"""Changes in the audit log as a person reads them: the fields that differ."""

import json
from typing import Any, NamedTuple

from towpath.access.v1 import admin_service_pb2 as pb

_MAX_FIELDS = 100
_MAX_CHARACTERS = 1_000


class Change(NamedTuple):
    """A field of a record, as text before and after the change; None where it was not there."""

    field: str
    before: str | None
    after: str | None


def changes_of(event: pb.AuditEvent) -> list[Change]:
    """Return the fields that an event has changed, at most a hundred; all of a record that was added or removed."""
    before, after = _fields(event.before), _fields(event.after)
    names = [*after, *(name for name in before if name not in after)]
    changed = [name for name in names if name not in before or name not in after or before[name] != after[name]]
    return [Change(name, _text(before, name), _text(after, name)) for name in changed[:_MAX_FIELDS]]


def _fields(record: str) -> dict[str, Any]:
    try:
        fields = json.loads(record) if record else {}
    except ValueError:
        fields = record
    return fields if isinstance(fields, dict) else {"record": fields}


def _text(fields: dict[str, Any], name: str) -> str | None:
    if name not in fields:
        return None
    value = fields[name]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_CHARACTERS else text[:_MAX_CHARACTERS] + "…"
