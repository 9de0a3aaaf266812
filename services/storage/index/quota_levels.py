"""SQL of the repositories that use most of their quota. Each function runs in the transaction of its connection."""

import datetime
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.sizes import WARNED_PERCENT
from services.storage.index.quota_models import QuotaLevel

WARNED, EXCEEDED = 1, 2
"""The levels: most of the quota is used; the quota is full, or an upload was refused."""

# A repository falls back to a lower level an hour after the last refused upload, so that an upload that is tried again
# and again is one event.
_REFRESH = text("""
    WITH reached AS (
        SELECT used.repository_id, used.object_bytes, quotas.quota_bytes,
            CASE WHEN used.object_bytes >= quotas.quota_bytes THEN 2 ELSE 1 END AS level
        FROM (
            SELECT repository_id, sum(object_bytes) AS object_bytes FROM (
                SELECT repository_id, object_bytes FROM storage.usage_totals
                UNION ALL SELECT repository_id, object_bytes FROM storage.usage_deltas
            ) AS parts
            GROUP BY 1
        ) AS used
        LEFT JOIN storage.repository_limits AS limits USING (repository_id)
        CROSS JOIN LATERAL (
            SELECT coalesce(limits.quota_bytes, CAST(:default_quota AS bigint)) AS quota_bytes
        ) AS quotas
        WHERE quotas.quota_bytes > 0 AND used.object_bytes * 100 >= CAST(quotas.quota_bytes AS numeric) * :percent
    ), risen AS (
        INSERT INTO storage.quota_levels AS known
            (repository_id, level, used_bytes, quota_bytes, is_told, reached_at)
        SELECT repository_id, level, object_bytes, quota_bytes, false, now() FROM reached
        ON CONFLICT (repository_id) DO UPDATE SET
            level = excluded.level, used_bytes = excluded.used_bytes, quota_bytes = excluded.quota_bytes,
            is_told = known.is_told AND excluded.level < known.level, reached_at = excluded.reached_at
        WHERE known.level < excluded.level
            OR known.level > excluded.level AND coalesce(known.refused_at < now() - interval '1 hour', true)
    )
    DELETE FROM storage.quota_levels AS known
    WHERE NOT EXISTS (SELECT FROM reached WHERE reached.repository_id = known.repository_id)
        AND coalesce(known.refused_at < now() - interval '1 hour', true)
""")
_TELL = text("""
    UPDATE storage.quota_levels AS known SET is_told = true
    FROM unnest(CAST(:repository_ids AS bigint[]), CAST(:reached_at AS timestamptz[]))
        AS told (repository_id, reached_at)
    WHERE known.repository_id = told.repository_id AND known.reached_at = told.reached_at
""")


class Reached(NamedTuple):
    """A level that a repository has reached, and how much of its quota it used then."""

    repository_id: int
    level: int
    used_bytes: int
    quota_bytes: int
    reached_at: datetime.datetime


async def refresh(connection: AsyncConnection, *, default_quota: int) -> None:
    """Record the level of every repository. The caller must have called `usage.may_keep`."""
    await connection.execute(_REFRESH, {"default_quota": default_quota, "percent": WARNED_PERCENT})


async def untold(connection: AsyncConnection, *, limit: int) -> list[Reached]:
    """Return up to `limit` levels that nobody was told of, the oldest first."""
    columns = [col(getattr(QuotaLevel, name)) for name in Reached._fields]
    statement = select(*columns).where(~col(QuotaLevel.is_told)).order_by(col(QuotaLevel.reached_at)).limit(limit)
    return [Reached._make(row) for row in await connection.execute(statement)]


async def mark_told(connection: AsyncConnection, told: Mapping[int, datetime.datetime]) -> None:
    """Record that somebody was told of levels, by the repository's id and the time at which they were reached."""
    moments: Sequence[datetime.datetime] = list(told.values())
    await connection.execute(_TELL, {"repository_ids": list(told), "reached_at": moments})
