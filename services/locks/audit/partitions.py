"""The partitions of the audit log: one for each month, made ahead of it, and dropped with all of it.

Rows of a month without a partition are in the default partition, and stay there until they expire.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Never

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.concurrency.periodic import run_periodically
from services.common.observability.logs import get_logger
from services.database.transactions import Database

_INTERVAL_SECONDS = 24 * 3600.0
_RETRY_SECONDS = 60.0
_MAX_ROWS = 5_000

_NAME = re.compile(r"audit_events_(\d{4})_(\d{2})", re.ASCII)
_ALONE = text("SELECT pg_try_advisory_xact_lock(hashtextextended('towpath audit partitions', 0))")
# A partition cannot be made or dropped while a query reads the table, and other queries wait behind it.
_BRIEFLY = text("SET LOCAL lock_timeout = '2s'")
_NOW = text("SELECT now()")
_PARTITIONS = text("""
    SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = 'locks.audit_events'::regclass
""")
_HAS_ROWS = text(
    "SELECT EXISTS (SELECT FROM locks.audit_events_other WHERE created_at >= :start AND created_at < :stop)"
)
_DELETE = text("""
    DELETE FROM locks.audit_events_other WHERE (created_at, id) IN (
        SELECT created_at, id FROM locks.audit_events_other WHERE created_at < :before ORDER BY 1, 2 LIMIT :limit
    )
""")

_log = get_logger(__name__)


async def keep_partitions(database: Database, days: int) -> Never:
    """Make and drop partitions, at once and then daily, until cancelled; 0 days keep all events."""

    async def work() -> None:
        await make_partitions(database)
        if days:
            await drop_expired(database, days)

    await run_periodically(
        work, _INTERVAL_SECONDS, trouble="the audit log is not kept in order", retry_seconds=_RETRY_SECONDS
    )


async def make_partitions(database: Database, *, now: datetime | None = None) -> None:
    """Make the partitions of this month and the next, except where the default partition has rows of the month.

    `now` is the clock of Postgres, which gives the rows their time. Return early if another lock service does this.
    """
    # Bypasses `Database.run`, which would make the service not ready if only this work found the disk full.
    async with database.engine.begin() as connection:
        if not await connection.scalar(_ALONE):
            return
        await connection.execute(_BRIEFLY)
        now = now or await _now(connection)
        made = set(await connection.scalars(_PARTITIONS))
        for start in (_month(now), _next(now)):
            name, stop = f"audit_events_{start:%Y_%m}", _next(start)
            if name in made:
                continue
            if await connection.scalar(_HAS_ROWS, {"start": start, "stop": stop}):
                _log.warning("a month of the audit log stays in the default partition", month=f"{start:%Y-%m}")
                continue
            bounds = f"FROM ('{start.isoformat()}') TO ('{stop.isoformat()}')"
            await connection.execute(
                text(f"CREATE TABLE locks.{name} PARTITION OF locks.audit_events FOR VALUES {bounds}")
            )


async def drop_expired(
    database: Database, days: int, *, max_rows: int = _MAX_ROWS, now: datetime | None = None
) -> None:
    """Drop the partitions of months that ended more than `days` ago, and delete such rows of the default partition.

    `now` is the clock of Postgres. Return early if another lock service does this.
    """
    async with database.engine.begin() as connection:
        if not await connection.scalar(_ALONE):
            return
        await connection.execute(_BRIEFLY)
        before = (now or await _now(connection)) - timedelta(days=days)
        for name in await connection.scalars(_PARTITIONS):
            found = _NAME.fullmatch(name)
            if found and _next(datetime(int(found[1]), int(found[2]), 1, tzinfo=UTC)) <= before:
                await connection.execute(text(f"DROP TABLE locks.{name}"))
    while await _delete(database, before, max_rows) == max_rows:
        pass


async def _delete(database: Database, before: datetime, max_rows: int) -> int:
    async with database.engine.begin() as connection:
        if not await connection.scalar(_ALONE):
            return 0
        return (await connection.execute(_DELETE, {"before": before, "limit": max_rows})).rowcount


async def _now(connection: AsyncConnection) -> datetime:
    now: datetime = (await connection.execute(_NOW)).scalar_one()
    return now.astimezone(UTC)


def _month(moment: datetime) -> datetime:
    return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _next(moment: datetime) -> datetime:
    return _month(_month(moment) + timedelta(days=32))
