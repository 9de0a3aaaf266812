"""The budget of look-ups at a forge, which all lock services share: GCRA, the generic cell rate algorithm.

Credentials that the forge has accepted before have most of it to themselves, so that a flood of invented ones cannot
use it up.
"""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_KNOWN_SHARE = 0.75
BURST_SECONDS = 10.0
"""The time whose look-ups may be taken at once after a pause."""

_TAKE = text("""
    INSERT INTO forge_lookups AS budget (forge_id, is_known, budget_until)
        SELECT id, :is_known, now() + make_interval(secs => CAST(:cost AS float8)) FROM forges WHERE id = :forge_id
    ON CONFLICT (forge_id, is_known) DO UPDATE
        SET budget_until = greatest(budget.budget_until, now()) + make_interval(secs => CAST(:cost AS float8))
        WHERE budget.budget_until <= now() + make_interval(secs => CAST(:burst AS float8) - CAST(:cost AS float8))
    RETURNING 1
""")
_WAIT = text("""
    SELECT extract(epoch FROM budget_until - now()) + CAST(:cost AS float8) - CAST(:burst AS float8) FROM forge_lookups
    WHERE forge_id = :forge_id AND is_known = :is_known
""")


def share_per_minute(per_minute: int, *, is_known: bool) -> float:
    """Return the look-ups of a minute that known credentials, or others, have for themselves."""
    return per_minute * (_KNOWN_SHARE if is_known else 1 - _KNOWN_SHARE)


async def take(connection: AsyncConnection, *, forge_id: int, is_known: bool, per_minute: int) -> float:
    """Take one look-up from the budget and return 0, or return the seconds until there is one to take.

    After a pause, the look-ups of ten seconds, and at least one, may be taken at once.
    """
    cost = 60.0 / share_per_minute(per_minute, is_known=is_known)
    values = {"forge_id": forge_id, "is_known": is_known, "cost": cost, "burst": max(cost, BURST_SECONDS)}
    if (await connection.execute(_TAKE, values)).one_or_none() is not None:
        return 0.0
    wait = await connection.scalar(_WAIT, values)
    return max(0.1, float(wait or 0))
