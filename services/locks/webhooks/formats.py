"""Bodies of deliveries: JSON for programs, or one line of text in the form of Slack or Discord.

Paths, notes, reasons and names are text of strangers. In a line of chat, each is a span of code, in which no mention,
link or markup has an effect.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from services.common.sizes import quota_message
from services.locks.webhooks.event_types import (
    LOCK_CREATED,
    LOCK_STOLEN,
    OBJECT_REMOVED,
    QUOTA_EXCEEDED,
    QUOTA_WARNED,
)

_MAX_QUOTED_CHARACTERS = 400
_SLACK_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_LOOKS_LIKE_BACKTICK = "\N{MODIFIER LETTER GRAVE ACCENT}"
_OID_CHARACTERS = 12
_SUPPRESS_EMBEDS = 4

Payload = Mapping[str, Any]


class Format(StrEnum):
    """The form of a delivery's body."""

    JSON = "json"
    SLACK = "slack"
    DISCORD = "discord"


def message_id(message_uuid: UUID) -> str:
    """Return the id of a message, as receivers and administrators see it."""
    return f"msg_{message_uuid.hex}"


def render(form: str, event_type: str, repository_id: int, payload: Payload) -> str:
    """Return the body of a delivery, a JSON object."""
    body: dict[str, Any]
    if form == Format.SLACK:
        line = _line(event_type, payload).translate(_SLACK_ENTITIES)
        body = {"text": line, "unfurl_links": False, "unfurl_media": False}
    elif form == Format.DISCORD:
        body = {"content": _line(event_type, payload), "allowed_mentions": {"parse": []}, "flags": _SUPPRESS_EMBEDS}
    else:
        body = {
            "type": event_type,
            "timestamp": _moment(payload["created_at"]),
            "data": {"repository": {"id": repository_id, "name": payload["repository_name"]}}
            | _DATA.get(event_type, _lock_data)(payload),
        }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _lock_data(payload: Payload) -> dict[str, Any]:
    lock = {
        "id": str(payload["lock_id"]),
        "path": payload["path"],
        "locked_at": _moment(payload["locked_at"]),
        "owner": {"name": payload["owner_name"]},
    }
    if payload["note"]:
        lock["note"] = payload["note"]
    if payload["space"]:
        lock["space"] = payload["space"]
    data = {"lock": lock, "by": {"name": payload["caused_by"]}, "forced": payload["forced"]}
    if payload["reason"]:
        data["reason"] = payload["reason"]
    if payload["previous_id"] is not None:
        data["previous"] = {"id": str(payload["previous_id"]), "owner": {"name": payload["previous_owner"]}}
    return data


def _object_data(payload: Payload) -> dict[str, Any]:
    return {
        "object": {"oid": payload["oid"], "size": payload["size"]},
        "by": {"name": payload["caused_by"]},
        "reason": payload["reason"],
    }


def _quota_data(payload: Payload) -> dict[str, Any]:
    return {"quota": {name: payload[name] for name in ("used_bytes", "quota_bytes")}}


_DATA = {OBJECT_REMOVED: _object_data, QUOTA_WARNED: _quota_data, QUOTA_EXCEEDED: _quota_data}
"""The makers of the data of events that are not those of a lock."""


def _line(event_type: str, payload: Payload) -> str:
    if event_type in (QUOTA_WARNED, QUOTA_EXCEEDED):
        state = "is nearly used" if event_type == QUOTA_WARNED else "has no room for an upload, or none at all"
        used = quota_message(payload["used_bytes"], payload["quota_bytes"])
        return f"the quota of {_quoted(payload['repository_name'])} {state}: {used}"
    by, repository, reason = _quoted(payload["caused_by"]), _quoted(payload["repository_name"]), payload["reason"]
    if event_type == OBJECT_REMOVED:
        oid, size = payload["oid"][:_OID_CHARACTERS], payload["size"]
        line = f"{by} removed the object {_quoted(oid)} of {size} bytes from {repository}"
    else:
        place = f"{_quoted(payload['path'])} in {repository}"
        if event_type == LOCK_CREATED:
            line, reason = f"{by} locked {place}", payload["note"]
        elif event_type == LOCK_STOLEN:
            line = f"{by} took over the lock of {_quoted(payload['previous_owner'])} on {place}"
        elif payload["forced"]:
            line = f"{by} removed the lock of {_quoted(payload['owner_name'])} on {place}"
        else:
            line = f"{by} unlocked {place}"
    return f"{line}: {_quoted(reason)}" if reason else line


def _quoted(text: str) -> str:
    """Return a text as a span of code, which it cannot end; long ones are cut, and unprintable characters escaped."""
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if len(printable) > _MAX_QUOTED_CHARACTERS:
        printable = printable[: _MAX_QUOTED_CHARACTERS - 1] + "…"
    return f"`{printable.replace('`', _LOOKS_LIKE_BACKTICK)}`"


def _moment(text: str) -> str:
    """Return a time of Postgres in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC).isoformat().replace("+00:00", "Z")
