"""SQL of the counters of usage. Each function runs in the transaction of its connection."""

import datetime
from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage.index.advisory_locks import key

KEPT_DAYS = 400
"""The days for which daily usage is kept."""

# No row of this table is ever changed, and one transaction at a time deletes: a row stays where it is.
_FOLD = text("""
    WITH folded AS (
        DELETE FROM storage.usage_deltas WHERE ctid = ANY(ARRAY(SELECT ctid FROM storage.usage_deltas LIMIT :limit))
        RETURNING repository_id, user_id, object_count, object_bytes
    ), of_repositories AS (
        INSERT INTO storage.usage_totals AS kept (repository_id, object_count, object_bytes)
        SELECT repository_id, sum(object_count), sum(object_bytes) FROM folded GROUP BY 1
        ON CONFLICT (repository_id) DO UPDATE SET
            object_count = kept.object_count + excluded.object_count,
            object_bytes = kept.object_bytes + excluded.object_bytes
    ), of_users AS (
        INSERT INTO storage.user_totals AS kept (user_id, object_count, object_bytes)
        SELECT user_id, sum(object_count), sum(object_bytes) FROM folded WHERE user_id IS NOT NULL GROUP BY 1
        ON CONFLICT (user_id) DO UPDATE SET
            object_count = kept.object_count + excluded.object_count,
            object_bytes = kept.object_bytes + excluded.object_bytes
    )
    SELECT count(*) FROM folded
""")
_USED = """
    used AS (
        SELECT repository_id, sum(object_count) AS object_count, sum(object_bytes) AS object_bytes FROM (
            SELECT repository_id, object_count, object_bytes FROM storage.usage_totals
            UNION ALL SELECT repository_id, object_count, object_bytes FROM storage.usage_deltas
        ) AS parts
        GROUP BY 1
    )
"""
_RECORD_DAY = text(f"""
    WITH {_USED}
    INSERT INTO storage.daily_usage (repository_id, day, object_count, object_bytes)
    SELECT used.repository_id, CAST(:day AS date), used.object_count, used.object_bytes
    FROM used
    LEFT JOIN LATERAL (
        SELECT known.object_count, known.object_bytes FROM storage.daily_usage AS known
        WHERE known.repository_id = used.repository_id ORDER BY known.day DESC LIMIT 1
    ) AS last ON true
    WHERE used.object_count <> coalesce(last.object_count, 0) OR used.object_bytes <> coalesce(last.object_bytes, 0)
    ON CONFLICT (repository_id, day) DO UPDATE
    SET object_count = excluded.object_count, object_bytes = excluded.object_bytes
""")  # noqa: S608 - our own words
# The newest row before the kept days stays: it tells what a repository held at their beginning.
_DELETE_DAYS = text("""
    DELETE FROM storage.daily_usage AS old
    WHERE old.day < CAST(:day AS date) AND EXISTS (
        SELECT FROM storage.daily_usage AS newer
        WHERE newer.repository_id = old.repository_id AND newer.day > old.day AND newer.day <= CAST(:day AS date)
    )
""")
_BYTES_AT = text("""
    SELECT DISTINCT ON (repository_id) repository_id, object_bytes FROM storage.daily_usage
    WHERE repository_id = ANY(CAST(:repository_ids AS bigint[])) AND day <= CAST(:day AS date)
    ORDER BY repository_id, day DESC
""")

_DAYS = text("""
    SELECT day, object_count, object_bytes FROM storage.daily_usage
    WHERE repository_id = :repository_id AND day >= coalesce((
        SELECT max(day) FROM storage.daily_usage
        WHERE repository_id = :repository_id AND day <= CAST(:first AS date)
    ), CAST(:first AS date))
    ORDER BY day
""")

_USED_BY_REPOSITORIES = text("""
    SELECT repository_id, sum(object_count), sum(object_bytes) FROM (
        SELECT repository_id, object_count, object_bytes FROM storage.usage_totals
        UNION ALL SELECT repository_id, object_count, object_bytes FROM storage.usage_deltas
    ) AS parts
    WHERE repository_id = ANY(CAST(:repository_ids AS bigint[]))
    GROUP BY 1
""")

_USED_BY_ALL = text(f"""
    WITH {_USED} SELECT repository_id, object_count, object_bytes FROM used WHERE object_count <> 0
""")  # noqa: S608 - our own words


class DayUsage(NamedTuple):
    """The objects that a repository held at the end of a UTC day."""

    day: datetime.date
    object_count: int
    object_bytes: int


class Used(NamedTuple):
    """The objects that a repository holds, or the held ones that a user has brought, as triggers have counted them."""

    object_count: int = 0
    object_bytes: int = 0


_USED_BY_USERS = text("""
    SELECT user_id, sum(object_count), sum(object_bytes) FROM (
        SELECT user_id, object_count, object_bytes FROM storage.user_totals
        UNION ALL SELECT user_id, object_count, object_bytes FROM storage.usage_deltas
    ) AS parts
    WHERE user_id = ANY(CAST(:user_ids AS bigint[]))
    GROUP BY 1
""")


async def may_keep(connection: AsyncConnection) -> bool:
    """Return whether no other transaction folds counters; none does until this one ends."""
    return bool(await connection.scalar(select(func.pg_try_advisory_xact_lock(key("usage")))))


async def fold(connection: AsyncConnection, *, limit: int) -> int:
    """Add up to `limit` changes to the totals, and return their number. The caller must have called `may_keep`."""
    return int(await connection.scalar(_FOLD, {"limit": limit}) or 0)


async def used_by_repositories(connection: AsyncConnection, repository_ids: Collection[int]) -> dict[int, Used]:
    """Return what each of the repositories holds; those that have never held anything are missing."""
    rows = await connection.execute(_USED_BY_REPOSITORIES, {"repository_ids": list(repository_ids)})
    return {row[0]: Used(int(row[1]), int(row[2])) for row in rows}


async def used_by_all_repositories(connection: AsyncConnection) -> dict[int, Used]:
    """Return what each repository holds; those that hold nothing are missing."""
    return {row[0]: Used(int(row[1]), int(row[2])) for row in await connection.execute(_USED_BY_ALL)}


async def used_by_users(connection: AsyncConnection, user_ids: Collection[int]) -> dict[int, Used]:
    """Return what each of the users has brought; those that have never brought anything are missing."""
    rows = await connection.execute(_USED_BY_USERS, {"user_ids": list(user_ids)})
    return {row[0]: Used(int(row[1]), int(row[2])) for row in rows}


async def record_day(connection: AsyncConnection, day: datetime.date) -> None:
    """Record what each repository holds on a day, and delete records that are too old."""
    await connection.execute(_RECORD_DAY, {"day": day})
    await connection.execute(_DELETE_DAYS, {"day": day - datetime.timedelta(days=KEPT_DAYS)})


async def bytes_at(connection: AsyncConnection, repository_ids: Collection[int], day: datetime.date) -> dict[int, int]:
    """Return the bytes that each of the repositories held at the end of a day; those that held nothing are missing."""
    rows = await connection.execute(_BYTES_AT, {"repository_ids": list(repository_ids), "day": day})
    return {row[0]: row[1] for row in rows}


async def recorded_days(connection: AsyncConnection, repository_id: int, first: datetime.date) -> list[DayUsage]:
    """Return what a repository held at the end of the recorded days from `first` on, the oldest first.

    Where `first` is not recorded, the result begins with the last recorded day before it, if there is one.
    """
    rows = await connection.execute(_DAYS, {"repository_id": repository_id, "first": first})
    return [DayUsage._make(row) for row in rows]
