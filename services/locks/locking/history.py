"""The history of released locks: their owners, the users that released them, and whether by force."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, delete, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.locking.paths import path_hash
from services.locks.locking.table import LockWithOwner
from services.locks.models import Lock, ReleasedLock, User


async def release_locks(
    connection: AsyncConnection,
    which: ColumnElement[bool],
    *,
    released_by_id: int,
    released_by: str,
    idempotency_key: str = "",
) -> None:
    """Move the standing locks that `which` selects to the history.

    A lock that does not belong to the releasing user is recorded as forced.
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
        )
        .cte("gone")
    )
    releases = select(
        *gone.c,
        literal(released_by_id).label("released_by_id"),
        literal(released_by).label("released_by"),
        (gone.c.owner_id != released_by_id).label("forced"),
        literal(idempotency_key).label("idempotency_key"),
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
    ).where(
        which,
        col(ReleasedLock.repository_id) == repository_id,
        col(ReleasedLock.released_by_id) == released_by_id,
        col(ReleasedLock.idempotency_key) == idempotency_key,
    )
    return [LockWithOwner(*row) for row in await connection.execute(statement)]


async def list_released(
    connection: AsyncConnection, *, repository_id: int, before: int | None, limit: int, path: str | None
) -> tuple[Sequence[ReleasedLock], bool]:
    """Return at most `limit` released locks of a repository, the latest released first, and whether more follow.

    `before` is the id of the last record of the previous page; `path` selects the locks of one path.
    """
    statement = select(*ReleasedLock.__table__.c).where(col(ReleasedLock.repository_id) == repository_id)
    if before is not None:
        statement = statement.where(col(ReleasedLock.id) < before)
    if path is not None:
        statement = statement.where(col(ReleasedLock.path_hash) == path_hash(path))
    result = await connection.execute(statement.order_by(col(ReleasedLock.id).desc()).limit(limit + 1))
    rows = result.mappings().all()
    return [ReleasedLock(**row) for row in rows[:limit]], len(rows) > limit
