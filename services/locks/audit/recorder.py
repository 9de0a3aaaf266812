"""The actor of changes, which the triggers of the audit log read, and events of changes in the storage service.

Every transaction within `acting` tells Postgres the actor, the source and the request id. Triggers of the audited
tables record them in the transaction that changes a row (docs/decisions/0037-audit.md), so that no code can forget to.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, event, insert, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.common.observability import request_id
from services.common.observability.logs import get_logger
from services.locks.models import AuditEvent

ADMIN, BIN, BOOTSTRAP, FACADE, SERVICE, SIGN_IN = "admin", "bin", "bootstrap", "facade", "service", "sign-in"
"""Sources of changes: AdminService, the end of the time in the bin, `towpath migrate`, people over HTTP, the service
itself, and sign-ins at an issuer.

Others are `forge NAME` and `issuer NAME`, by whose credentials users and repositories are made.
"""

MAX_LOGGED = 1_000
"""The events of one transaction that are logged; the table has all."""

_TELL = text(
    "SELECT set_config('towpath.actor', :actor, true), set_config('towpath.source', :source, true), "
    "set_config('towpath.request_id', :request_id, true)"
)
# All rows of a transaction have the time of its start, and those of others at that microsecond another id of it. One
# that has only read has no id, and gets none for this.
_RECORDED = text("""
    SELECT id, type, actor, source, subject, repository FROM locks.audit_events
    WHERE created_at = now() AND xmin = pg_current_xact_id_if_assigned()::xid ORDER BY id LIMIT :limit
""")

_log = get_logger("audit")


@dataclass
class _Acting:
    actor: str
    source: str
    recorded: dict[int, dict[str, Any]] = field(default_factory=dict)


_acting: ContextVar[_Acting | None] = ContextVar("acting", default=None)


@contextmanager
def acting(actor: str, source: str) -> Iterator[None]:
    """Name `actor` and `source` in the audit events of all transactions in the block, and log these events at its end.

    With an empty `actor`, an event of a released lock names the user who released it, and others name the role of the
    database. `watch_transactions` has to be called for the engine.
    """
    # Postgres has no text with NUL, and a forge or an issuer chooses the names of its users.
    current = _Acting(actor.replace("\0", "\ufffd"), source)
    token = _acting.set(current)
    try:
        yield
    finally:
        _acting.reset(token)
        for recorded in current.recorded.values():
            _log.info("audit", **recorded)


def watch_transactions(engine: AsyncEngine) -> None:
    """Have each transaction of an engine that begins within `acting` tell Postgres who acts."""
    event.listen(engine.sync_engine, "begin", _tell)
    event.listen(engine.sync_engine, "commit", _collect)


def _tell(connection: Connection) -> None:
    if (current := _acting.get()) is not None:
        values = {"actor": current.actor, "source": current.source, "request_id": request_id.current()}
        connection.execute(_TELL, values)


def _collect(connection: Connection) -> None:
    if (current := _acting.get()) is not None:
        for row in connection.execute(_RECORDED, {"limit": MAX_LOGGED}).mappings():
            current.recorded[row["id"]] = dict(row)


async def record(
    connection: AsyncConnection,
    type_: str,
    *,
    subject: str,
    repository: str = "",
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    """Record a change that no trigger sees, with the actor of the block `acting`; the caller leaves out secrets."""
    current = _acting.get()
    if current is None:
        raise RuntimeError("expected an actor: record() is called within acting()")
    values = {"actor": current.actor, "source": current.source, "request_id": request_id.current()}
    changes = {"subject": subject, "repository": repository, "before": before, "after": after}
    await connection.execute(insert(AuditEvent).values(type=type_, **values, **changes))
