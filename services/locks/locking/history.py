"""The history of released locks: their owners, the users that released them, and whether by force, by theft and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, delete, func, literal, or_, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.locking.paths import path_hash
from services.locks.locking.table import LockWithOwner
from services.locks.models import Lock, ReleasedLock, User

# Those of the index of paths in spaces.
_HEAD_CHARACTERS = 255
_RELEASED = ReleasedLock.__table__.c
_LAST = ReleasedLock.__table__.alias("last")


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


async def list_released(
    connection: AsyncConnection, *, repository_id: int, before: int | None, limit: int, which: HistoryFilter
) -> tuple[Sequence[ReleasedLock], bool]:
    """Return at most `limit` released locks of a repository, the latest released first, and whether more follow.

    `before` is the id of the last record of the previous page. If that record has expired, no later page has any.
    """
    place = tuple_(col(ReleasedLock.released_at), col(ReleasedLock.id))
    statement = select(*_RELEASED).where(col(ReleasedLock.repository_id) == repository_id)
    if before is not None:
        last = select(_LAST.c.released_at, _LAST.c.id).where(_LAST.c.id == before)
        statement = statement.where(place < last.where(_LAST.c.repository_id == repository_id).scalar_subquery())
    if which.path is not None:
        statement = statement.where(_of_path(which.path))
    if which.owner_name is not None:
        # Postgres refuses NUL, which no name has.
        named = which.owner_name if "\0" not in which.owner_name else ""
        statement = statement.where(col(ReleasedLock.owner_name) == named)
    if which.since is not None:
        statement = statement.where(col(ReleasedLock.released_at) >= which.since)
    if which.until is not None:
        statement = statement.where(col(ReleasedLock.released_at) < which.until)
    order = (col(ReleasedLock.released_at).desc(), col(ReleasedLock.id).desc())
    rows = (await connection.execute(statement.order_by(*order).limit(limit + 1))).mappings().all()
    return [ReleasedLock(**row) for row in rows[:limit]], len(rows) > limit


def _of_path(path: str) -> ColumnElement[bool]:
    """Return the condition that selects the locks of a path in all spaces; each half has an index."""
    by_hash = col(ReleasedLock.path_hash) == path_hash(path)
    # Postgres refuses NUL, which no path has.
    if "\0" in path:
        return by_hash
    head = func.left(col(ReleasedLock.path), _HEAD_CHARACTERS) == path[:_HEAD_CHARACTERS]
    return or_(by_hash, and_(col(ReleasedLock.space) != "", head, col(ReleasedLock.path) == path))
