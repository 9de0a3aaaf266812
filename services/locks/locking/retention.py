"""Deletion of what has expired: history that a repository keeps for a time, events, tokens, and refusals.

Events are kept for a day, and tokens of issuers and of SSH sessions for a day after they have expired. Refusals are
kept for seven days, but at most the last 500,000 of users and of strangers each.

One lock service at a time deletes, in transactions of a bounded number of rows.
"""

from collections.abc import AsyncIterator
from typing import Any, Never

from sqlalchemy import TextClause, text

from services.common.concurrency.periodic import run_periodically
from services.database.transactions import Database

_INTERVAL_SECONDS = 600.0
_MAX_ROWS = 5_000
_MAX_REFUSALS = 500_000

_ALONE = text("SELECT pg_try_advisory_xact_lock(hashtextextended('towpath lock retention', 0))")
_OLD_HISTORY = text("""
    SELECT repositories.id AS repository_id, now() - make_interval(secs => history_seconds) AS before
    FROM locks.repositories WHERE history_seconds IS NOT NULL
""")
_DELETE_HISTORY = text("""
    DELETE FROM locks.released_locks WHERE id IN (
        SELECT id FROM locks.released_locks WHERE repository_id = :repository_id AND released_at < :before
        ORDER BY released_at, id LIMIT :limit
    )
""")
# A watch relies on numbers without a gap, which are not quite in the order of the times.
_OLD_EVENTS = text("""
    SELECT repository_id, stripe, max(number) AS number FROM locks.lock_events
    WHERE created_at < now() - interval '1 day' GROUP BY 1, 2
""")
_DELETE_EVENTS = text("""
    DELETE FROM locks.lock_events WHERE repository_id = :repository_id AND stripe = :stripe AND number IN (
        SELECT number FROM locks.lock_events
        WHERE repository_id = :repository_id AND stripe = :stripe AND number <= :number ORDER BY number LIMIT :limit
    )
""")
# Without a limit, because facades ask anew about all access after each statement, also one that deletes nothing.
# For a day, the owner of a token is told that it has expired.
_OLD = "(issuer_id IS NOT NULL OR ssh_key_id IS NOT NULL) AND expires_at < now() - interval '1 day'"
_HAS_OLD_TOKENS = text(f"SELECT EXISTS (SELECT FROM locks.tokens WHERE {_OLD})")  # noqa: S608 - the condition above
_DELETE_TOKENS = text(f"DELETE FROM locks.tokens WHERE {_OLD}")  # noqa: S608 - see above
_DELETE_REFUSALS = text("""
    DELETE FROM locks.refusals WHERE id IN (
        SELECT id FROM locks.refusals WHERE created_at < now() - interval '7 days' ORDER BY created_at LIMIT :limit
    )
""")
# Apart, so that strangers push out no refusal of a user.
_DELETE_MANY_REFUSALS = tuple(
    text(f"""
        DELETE FROM locks.refusals WHERE id IN (
            SELECT id FROM locks.refusals WHERE {of} AND id <= (
                SELECT id FROM locks.refusals WHERE {of} ORDER BY id DESC OFFSET :kept LIMIT 1
            ) ORDER BY id LIMIT :limit
        )
    """)  # noqa: S608 - the conditions are those below
    for of in ("user_name = ''", "user_name <> ''")
)


async def keep_deleting_expired(database: Database) -> Never:
    """Delete what has expired, at once and then every ten minutes, until cancelled."""

    async def work() -> None:
        await delete_expired(database)

    await run_periodically(work, _INTERVAL_SECONDS, trouble="expired history is not deleted")


async def delete_expired(database: Database, *, max_rows: int = _MAX_ROWS, max_refusals: int = _MAX_REFUSALS) -> bool:
    """Delete what has expired, `max_rows` in a transaction. Return False early if another lock service is deleting."""
    async for deletion, which in _deletions(database, max_refusals):
        deleted = max_rows
        while deleted == max_rows:
            # Bypasses `Database.run`, which would make the service not ready if only this work found the disk full.
            async with database.engine.begin() as connection:
                if not await connection.scalar(_ALONE):
                    return False
                deleted = (await connection.execute(deletion, {**which, "limit": max_rows})).rowcount
    return True


async def _deletions(database: Database, max_refusals: int) -> AsyncIterator[tuple[TextClause, dict[str, Any]]]:
    """Yield the deletions that are due and their parameters without the limit."""
    for old, deletion in ((_OLD_HISTORY, _DELETE_HISTORY), (_OLD_EVENTS, _DELETE_EVENTS)):
        async with database.engine.begin() as connection:
            expired = [dict(row) for row in (await connection.execute(old)).mappings()]
        for which in expired:
            yield deletion, which
    async with database.engine.begin() as connection:
        has_old_tokens = await connection.scalar(_HAS_OLD_TOKENS)
    if has_old_tokens:
        yield _DELETE_TOKENS, {}
    yield _DELETE_REFUSALS, {}
    for deletion in _DELETE_MANY_REFUSALS:
        yield deletion, {"kept": max_refusals}
