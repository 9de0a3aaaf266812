"""The history of released locks: their owners, the users that released them, and whether by force, by theft and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple

from sqlalchemy import ColumnElement, delete, literal, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.database.statement import Condition, Statement, conjunction
from services.database.transactions import Database
from services.locks.locking.paths import path_hash
from services.locks.locking.table import LockWithOwner
from services.locks.models import Lock, ReleasedLock, User

# Those of the index of paths in spaces.
_HEAD_CHARACTERS = 255

MAX_PAGE = 100
"""The most released locks of a page; strangers may read those of a public repository, one page after another."""
_MAX_PAGE_BYTES = 256 * 1024


async def release_locks(
    connection: AsyncConnection,
    which: ColumnElement[bool],
    *,
    released_by_id: int,
    released_by: str,
    idempotency_key: str = "",
    reason: str = "",
    stolen: bool = False,
) -> None:
    """Move the standing locks that `which` selects to the history.

    A lock that is stolen, or does not belong to the releasing user, is recorded as forced.
    """
    gone = (
        delete(Lock)
        .where(which, col(Lock.owner_id) == col(User.id))
        .returning(
            col(Lock.id).label("lock_id"),
            col(Lock.repository_id),
            col(Lock.path),
            col(Lock.path_hash),
            col(Lock.owner_id),
            col(User.name).label("owner_name"),
            col(Lock.locked_at),
            col(Lock.note),
            col(Lock.space),
        )
        .cte("gone")
    )
    releases = select(
        *gone.c,
        literal(released_by_id).label("released_by_id"),
        literal(released_by).label("released_by"),
        or_(literal(stolen), gone.c.owner_id != released_by_id).label("forced"),
        literal(idempotency_key).label("idempotency_key"),
        literal(reason).label("reason"),
        literal(stolen).label("stolen"),
    ).order_by(gone.c.lock_id)
    await connection.execute(
        insert(ReleasedLock).from_select([column.name for column in releases.selected_columns], releases)
    )


async def find_releases(
    connection: AsyncConnection,
    which: ColumnElement[bool],
    *,
    repository_id: int,
    released_by_id: int,
    idempotency_key: str,
) -> Sequence[LockWithOwner]:
    """Return those locks that an earlier call of the same user and idempotency key released."""
    statement = select(
        col(ReleasedLock.lock_id),
        col(ReleasedLock.path),
        col(ReleasedLock.locked_at),
        col(ReleasedLock.owner_id),
        col(ReleasedLock.owner_name),
        col(ReleasedLock.note),
        col(ReleasedLock.space),
    ).where(
        which,
        col(ReleasedLock.repository_id) == repository_id,
        col(ReleasedLock.released_by_id) == released_by_id,
        col(ReleasedLock.idempotency_key) == idempotency_key,
    )
    return [LockWithOwner(*row) for row in await connection.execute(statement)]


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Selects released locks by each field that is not None: released at `since` or later, and before `until`."""

    path: str | None = None
    owner_name: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Release(NamedTuple):
    """A released lock, as a page of the history has it; see `ReleasedLock`."""

    id: int
    lock_id: int
    path: str
    owner_id: int
    owner_name: str
    locked_at: datetime
    note: str
    space: str
    released_at: datetime
    released_by: str
    forced: bool
    stolen: bool
    reason: str


# Hot path, and open to strangers: literal SQL and tuples, as for standing locks.
_LIST = f"""
    SELECT {", ".join(Release._fields)} FROM locks.released_locks
    WHERE repository_id = $1{{conditions}}
    ORDER BY released_at DESC, id DESC LIMIT $2
"""  # noqa: S608 - our own names
_AFTER = """(released_at, id) < (
    SELECT last.released_at, last.id FROM locks.released_locks AS last WHERE last.id = {} AND last.repository_id = $1
)"""


async def list_released(
    database: Database, *, repository_id: int, before: int | None, limit: int, which: HistoryFilter
) -> tuple[Sequence[Release], bool]:
    """Return some released locks of a repository, the latest released first, and whether more follow.

    They are `limit` at most, and no more than a page may have: `MAX_PAGE`, and `_MAX_PAGE_BYTES` of texts unless it is
    one lock alone. `before` is the id of the last record of the previous page. If that record has expired, no later
    page has any.
    """
    size = min(limit, MAX_PAGE)
    values = list[object]([repository_id, size + 1])
    conditions = conjunction(_conditions(which, before), values)
    rows = await database.fetch(Statement(_LIST.format(conditions=conditions), tuple(values)))
    releases = [Release._make(row) for row in rows]
    totals = accumulate(len(f"{each.path}{each.note}{each.space}{each.reason}".encode()) for each in releases)
    count = min(size, max(1, sum(total <= _MAX_PAGE_BYTES for total in totals)))
    return releases[:count], len(releases) > count


def _conditions(which: HistoryFilter, before: int | None) -> Iterator[Condition]:
    """Yield conditions on a released lock."""
    if "\0" in (which.path or "") + (which.owner_name or ""):
        # No path or name has a NUL, which Postgres would refuse.
        yield "false", []
        return
    if before is not None:
        yield _AFTER, [before]
    if which.path is not None:
        # In all spaces; each half has an index.
        yield (
            f"(path_hash = {{}} OR space <> '' AND \"left\"(path, {_HEAD_CHARACTERS}) = {{}} AND path = {{}})",
            [path_hash(which.path), which.path[:_HEAD_CHARACTERS], which.path],
        )
    if which.owner_name is not None:
        yield "owner_name = {}", [which.owner_name]
    if which.since is not None:
        yield "released_at >= {}", [which.since]
    if which.until is not None:
        yield "released_at < {}", [which.until]
