"""Pages of the audit log, the latest event first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.audit.event_types import PREFIX
from services.locks.ids import invalid_cursor
from services.locks.models import AuditEvent


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """The events of a list; an empty field limits nothing."""

    since: datetime | None = None
    until: datetime | None = None
    actor: str = ""
    type_prefix: str = ""
    repository: str = ""


def cursor_of(event: AuditEvent) -> str:
    """Return the cursor of the page after an event."""
    return f"{int(event.created_at.timestamp() * 1_000_000)}-{event.id}"


def _position(cursor: str) -> tuple[datetime, int]:
    """Return the time and the id of a cursor. Raises `InvalidArgument` (INVALID_CURSOR)."""
    micros, _, number = cursor.partition("-")
    if not (len(cursor) <= 40 and cursor.isascii() and micros.isdigit() and number.isdigit()):
        raise invalid_cursor()
    try:
        seconds, rest = divmod(int(micros), 1_000_000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest), int(number)
    except (ValueError, OverflowError, OSError):
        raise invalid_cursor() from None


async def list_events(
    connection: AsyncConnection, *, which: AuditFilter, cursor: str, limit: int
) -> tuple[Sequence[AuditEvent], bool]:
    """Return a page of events, and whether more exist. Raises `InvalidArgument` (INVALID_CURSOR)."""
    statement = select(*AuditEvent.__table__.c)
    created_at, number = col(AuditEvent.created_at), col(AuditEvent.id)
    if cursor:
        statement = statement.where(tuple_(created_at, number) < tuple_(*_position(cursor)))
    if which.since is not None:
        statement = statement.where(created_at >= which.since)
    if which.until is not None:
        statement = statement.where(created_at < which.until)
    if which.actor:
        statement = statement.where(col(AuditEvent.actor) == which.actor)
    if which.repository:
        statement = statement.where(col(AuditEvent.repository) == which.repository)
    if which.type_prefix:
        prefix = f"{PREFIX}{which.type_prefix.removeprefix(PREFIX)}"
        statement = statement.where(col(AuditEvent.type).startswith(prefix, autoescape=True))
    rows = await connection.execute(statement.order_by(created_at.desc(), number.desc()).limit(limit + 1))
    events = [AuditEvent(**row) for row in rows.mappings()]
    return events[:limit], len(events) > limit
