"""Events of locks, read from their table."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple

from services.common.errors import NotFound, Reason
from services.common.lock_positions import Position, position_of
from services.database.statement import Statement
from services.database.transactions import Database

MAX_EVENTS = 10_000
"""The most events that a watcher may lack; one that lacks more has to list the locks again."""

# Strangers may watch a public repository from any position, again and again.
_MAX_PAGE = 250
_MAX_PAGE_BYTES = 256 * 1024

_CHANGES = """
    SELECT stripe, changes FROM locks.repositories
    LEFT JOIN locks.locks_per_repository ON repository_id = repositories.id
    WHERE repositories.id = $1
"""
_GENERATIONS = """
    SELECT repositories.id, 1 + coalesce(sum(changes), 0)::bigint FROM locks.repositories
    LEFT JOIN locks.locks_per_repository ON repository_id = repositories.id
    WHERE repositories.id = ANY($1) GROUP BY repositories.id
"""
_EVENTS = """
    SELECT
        event.stripe, event.number, type, lock_id, path, note, space, owner_id, owner_name, locked_at,
        caused_by, reason, forced, previous_id, previous_owner, created_at
    FROM unnest($2::smallint[], $3::bigint[], $4::bigint[]) AS missing (stripe, known, last)
    JOIN locks.lock_events AS event
        ON event.repository_id = $1 AND event.stripe = missing.stripe
        AND event.number > missing.known AND event.number <= missing.last
    ORDER BY event.id LIMIT $5
"""


class Event(NamedTuple):
    """A change of a lock, and the position after it; the fields are those of the table `lock_events`."""

    position: Position
    type: str
    lock_id: int
    path: str
    note: str
    space: str
    owner_id: int
    owner_name: str
    locked_at: datetime
    caused_by: str
    reason: str
    forced: bool
    previous_id: int | None
    previous_owner: str
    created_at: datetime


async def read_position(database: Database, repository_id: int) -> Position:
    """Return the position after the last event of a repository. Raises `NotFound` (REPOSITORY_NOT_FOUND)."""
    rows = await database.fetch(Statement(_CHANGES, (repository_id,)))
    if not rows:
        raise no_repository()
    return position_of(repository_id, {stripe: changes for stripe, changes in rows if stripe is not None})


async def read_generations(database: Database, repository_ids: Sequence[int]) -> Mapping[int, int]:
    """Return the generation of each of the repositories that exist, unless the database does not answer at once."""
    rows = await database.fetch(Statement(_GENERATIONS, (list(repository_ids),)), patient=False)
    return {int(repository_id): int(generation) for repository_id, generation in rows}


async def read_events(database: Database, known: Position, last: Position) -> Sequence[Event] | None:
    """Return the first events after one position up to a later one, in their order; None if they are not all there.

    They are at most `_MAX_PAGE`, and have `_MAX_PAGE_BYTES` of texts unless it is one event alone. The order is one in
    which the changes may have been committed, and that of the changes of each path.
    """
    count = last.generation - known.generation
    if not last.includes(known) or count > MAX_EVENTS:
        return None
    missing = [
        # No more of a stripe can be on the page.
        (stripe, its, min(until, its + _MAX_PAGE))
        for stripe, (its, until) in enumerate(zip(known.numbers, last.numbers, strict=True))
        if its < until
    ]
    values = (known.repository_id, *map(list, zip(*missing, strict=True)), _MAX_PAGE)
    rows = await database.fetch(Statement(_EVENTS, values))
    if len(rows) < min(count, _MAX_PAGE):
        return None
    events, position = list[Event](), known
    for stripe, number, *fields in rows:
        if number != position.numbers[stripe] + 1:
            return None
        position = position.after(stripe, number)
        events.append(Event(position, *fields))
    totals = accumulate(len(f"{each.path}{each.note}{each.space}{each.reason}".encode()) for each in events)
    return events[: max(1, sum(total <= _MAX_PAGE_BYTES for total in totals))]


def no_repository() -> NotFound:
    """Return the error for a repository that does not exist, or no longer."""
    return NotFound(Reason.REPOSITORY_NOT_FOUND, "repository_id: there is no such repository")
