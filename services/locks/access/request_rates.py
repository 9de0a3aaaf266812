"""The requests that all facades have taken from the rates of users and tokens, by all lock services together."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import CursorResult, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.concurrency.periodic import run_periodically
from services.common.errors import Aborted, Reason
from services.database.transactions import Database
from services.locks.access.gcra import Demand, Rate, Taken, take

_ATTEMPTS = 3
_CLEANING_SECONDS = 3_600.0

_ASKED = """unnest(
    CAST(:are_tokens AS boolean[]), CAST(:ids AS bigint[]), CAST(:limits AS bigint[])
) AS asked (is_token, holder_id, requests_per_hour)"""
# The rows are locked in one order, so that two transactions never wait for each other; the time is read afterwards.
_HOLD = text(f"""
    WITH held AS MATERIALIZED (
        SELECT is_token, holder_id, requests_per_hour, tat
        FROM rate_states JOIN {_ASKED} USING (is_token, holder_id, requests_per_hour)
        ORDER BY is_token, holder_id, requests_per_hour FOR UPDATE OF rate_states
    )
    SELECT is_token, holder_id, requests_per_hour, tat, clock_timestamp() AS now FROM held
""")  # noqa: S608 - our own words
_WRITE = text("""
    UPDATE rate_states SET tat = taken.tat
    FROM unnest(
        CAST(:are_tokens AS boolean[]), CAST(:ids AS bigint[]), CAST(:limits AS bigint[]), CAST(:tats AS timestamptz[])
    ) AS taken (is_token, holder_id, requests_per_hour, tat)
    WHERE rate_states.is_token = taken.is_token AND rate_states.holder_id = taken.holder_id
        AND rate_states.requests_per_hour = taken.requests_per_hour
""")
_ADD = text(f"""
    INSERT INTO rate_states (is_token, holder_id, requests_per_hour, tat)
    SELECT is_token, holder_id, requests_per_hour, now() FROM {_ASKED}
    ORDER BY is_token, holder_id, requests_per_hour ON CONFLICT DO NOTHING
""")  # noqa: S608 - our own words
# An array, because Postgres may run a subquery after IN once for each row.
_FORGET_IDLE = text("""
    DELETE FROM rate_states WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM rate_states WHERE tat < now() - interval '1 hour' LIMIT 10000 FOR UPDATE SKIP LOCKED
    ))
""")


class Holder(NamedTuple):
    """A user, or a token, whose requests are limited, with one of its limits."""

    is_token: bool
    id: int
    per_hour: int


class RequestRates:
    """Takes requests from the rates of holders.

    `default_limit` is the limit of a user who has none, in requests an hour.
    """

    def __init__(self, database: Database, *, default_limit: int) -> None:
        self._database = database
        self.default_limit = default_limit

    async def take(self, wanted: Mapping[Holder, Demand]) -> Mapping[Holder, Taken]:
        """Take requests for each holder, in one transaction; see `gcra.take`."""
        holders = sorted(wanted)
        for _ in range(_ATTEMPTS):
            taken = await self._database.run(partial(_take, holders=holders, wanted=wanted))
            if taken is not None:
                return taken
            # In a transaction of its own: one that holds rows never waits for rows that come before these.
            await self._database.run(partial(_execute, statement=_ADD, holders=holders))
        raise Aborted(Reason.UNAVAILABLE, "the rates were cleaned again and again meanwhile")

    async def keep_cleaning(self) -> None:
        """Delete the rows of holders that have taken nothing for an hour, until cancelled."""

        async def work() -> None:
            await self._database.run(lambda connection: connection.execute(_FORGET_IDLE))

        await run_periodically(work, _CLEANING_SECONDS, trouble="idle rates are not deleted")


async def _take(
    connection: AsyncConnection, holders: Sequence[Holder], wanted: Mapping[Holder, Demand]
) -> Mapping[Holder, Taken] | None:
    """Take requests for each holder; None, and nothing is taken, if one of them has no row."""
    held: dict[Holder, tuple[datetime, datetime]] = {
        Holder(row.is_token, row.holder_id, row.requests_per_hour): (row.tat, row.now)
        for row in await _execute(connection, _HOLD, holders)
    }
    if len(held) < len(holders):
        return None
    taken, moments = {}, []
    for holder in holders:
        tat, now = held[holder]
        # In seconds from `now`: a float of the seconds since 1970 is not as exact as the rates.
        taken[holder] = take(Rate(holder.per_hour), wanted[holder], tat=(tat - now).total_seconds(), now=0.0)
        moments.append(now + timedelta(seconds=taken[holder].tat))
    await _execute(connection, _WRITE, holders, tats=moments)
    return taken


async def _execute(
    connection: AsyncConnection, statement: TextClause, holders: Sequence[Holder], **more: Sequence[datetime]
) -> CursorResult[Any]:
    are_tokens, ids, limits = zip(*holders, strict=True)
    values = {"are_tokens": list(are_tokens), "ids": list(ids), "limits": list(limits)}
    return await connection.execute(statement, {**values, **more})
