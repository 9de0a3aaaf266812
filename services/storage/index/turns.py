"""Turns: the right to collect a repository's garbage, which one of several callers has at a time."""

import datetime
import math
from typing import NamedTuple

from services.database.statement import Statement
from services.database.transactions import Database

_HELD_SECONDS = 300
"""The seconds after which a turn ends whose holder does not keep it."""

_PAUSE_SECONDS = 600
"""The seconds between a failure and the next turn."""

# The holder of a turn that has not ended keeps it; to take one, the last one must be over and long enough ago.
_TAKE = f"""
    INSERT INTO storage.collection_turns AS turn (repository_id, holder, began_at, held_until)
    VALUES ($1::bigint, $2::text, now(), now() + interval '{_HELD_SECONDS} seconds')
    ON CONFLICT (repository_id) DO UPDATE SET
        holder = excluded.holder, held_until = excluded.held_until,
        began_at = CASE WHEN turn.holder = excluded.holder THEN turn.began_at ELSE excluded.began_at END
    WHERE turn.held_until > now() AND turn.holder = excluded.holder
        OR turn.held_until <= now() AND (turn.done_at IS NULL OR turn.done_at + $3::interval <= now())
    RETURNING true
"""  # noqa: S608 - our own number
_WAIT = """
    SELECT extract(epoch FROM GREATEST(held_until, done_at + $2::interval) - now())::double precision
    FROM storage.collection_turns WHERE repository_id = $1::bigint
"""
# The next turn counts from the beginning of the one that is done.
_END = f"""
    UPDATE storage.collection_turns SET
        holder = '', done_at = CASE WHEN $3::boolean THEN began_at ELSE done_at END,
        held_until = now() + CASE WHEN $3::boolean THEN interval '0' ELSE interval '{_PAUSE_SECONDS} seconds' END
    WHERE repository_id = $1::bigint AND holder = $2::text
"""  # noqa: S608 - our own number


class Turn(NamedTuple):
    """A turn that is asked for."""

    repository_id: int
    holder: str
    every: datetime.timedelta


async def take(database: Database, asked: Turn) -> int | None:
    """Take a turn, or keep it: return None; if it is not to be had, return the seconds after which it may be."""
    if await database.fetch(Statement(_TAKE, (asked.repository_id, asked.holder, asked.every))):
        return None
    return await _wait(database, asked)


async def end(database: Database, asked: Turn, *, done: bool) -> int:
    """End the holder's turn, if it still has it, and return the seconds after which the next one may be had."""
    await database.fetch(Statement(_END, (asked.repository_id, asked.holder, done)))
    return await _wait(database, asked)


async def forget(database: Database, repository_id: int) -> None:
    """Forget the turns of a repository."""
    await database.fetch(Statement("DELETE FROM storage.collection_turns WHERE repository_id = $1", (repository_id,)))


async def _wait(database: Database, asked: Turn) -> int:
    rows = await database.fetch(Statement(_WAIT, (asked.repository_id, asked.every)))
    return max(1, math.ceil(rows[0][0])) if rows else 1
