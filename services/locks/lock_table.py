"""The standing locks: created, listed page by page, looked at for removal.

That only one of many creators gets a path is the table's unique constraint, and nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, exists, func, select, union_all
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import Aborted, NotFound, Reason
from services.locks.access import Role
from services.locks.constraints import violated
from services.locks.models import Grant, Lock, Repository, User
from services.locks.paths import path_hash

_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class StandingLock:
    """A lock and its owner's name. `locked_at` is in whole seconds."""

    id: int
    path: str
    locked_at: datetime
    owner_id: int
    owner_name: str


@dataclass(frozen=True, slots=True)
class Removal:
    """A standing lock, held fast until the transaction ends, and what decides whether a user may remove it."""

    lock: StandingLock
    forced_unlock: str
    user_name: str | None
    user_is_admin: bool


def _standing() -> Select[*tuple[Any, ...]]:
    return select(
        col(Lock.id), col(Lock.path), col(Lock.locked_at), col(Lock.owner_id), col(User.name).label("owner_name")
    ).join_from(Lock, User, col(Lock.owner_id) == col(User.id))


def _insert_or_find(repository_id: int, user_id: int, path: str, key: str) -> Select[*tuple[Any, ...]]:
    """Return one statement that makes the lock, or finds the one that stands in its way.

    It finds nothing where that one was committed after the statement began: the next statement sees it.
    """
    digest = path_hash(path)
    made = (
        insert(Lock)
        .values(
            repository_id=repository_id,
            path=path,
            path_hash=digest,
            owner_id=user_id,
            locked_at=func.date_trunc("second", func.now()),
            idempotency_key=key,
        )
        .on_conflict_do_nothing(index_elements=["repository_id", "path_hash"])
        .returning(col(Lock.id), col(Lock.path), col(Lock.locked_at), col(Lock.owner_id), col(Lock.idempotency_key))
        .cte("made")
    )
    inserted = select(
        made.c.id,
        made.c.path,
        made.c.locked_at,
        made.c.owner_id,
        col(User.name).label("owner_name"),
        made.c.idempotency_key,
    ).join_from(made, User, made.c.owner_id == col(User.id))
    in_the_way = (
        _standing()
        .add_columns(col(Lock.idempotency_key))
        .where(col(Lock.repository_id) == repository_id, col(Lock.path_hash) == digest)
        # The one that stood when the statement began may have made way while the insert waited for it.
        .where(~exists(select(made.c.id)))
    )
    either = union_all(inserted, in_the_way).subquery()
    return select(either)


async def create_lock(
    connection: AsyncConnection, *, repository_id: int, user_id: int, path: str, idempotency_key: str
) -> tuple[StandingLock, bool]:
    """Lock a path; return the lock that now stands, and whether it is the one asked for.

    It is so where this call, or an earlier one of the same user and key, made it. Raises `NotFound`
    (USER_NOT_FOUND, REPOSITORY_NOT_FOUND), and `Aborted` where the path was locked and unlocked too often meanwhile.
    """
    statement = _insert_or_find(repository_id, user_id, path, idempotency_key)
    for _ in range(_ATTEMPTS):
        try:
            row = (await connection.execute(statement)).one_or_none()
        except IntegrityError as error:
            raise _unknown_party(error) from error
        if row is not None:
            *lock, key = row
            standing = StandingLock(*lock)
            return standing, key == idempotency_key and standing.owner_id == user_id
    raise Aborted(Reason.UNAVAILABLE, "the lock of this path changes too fast; try again")


def _unknown_party(error: IntegrityError) -> Exception:
    match violated(error):
        case "fk_locks_owner_id":
            return NotFound(Reason.USER_NOT_FOUND, "user_id: there is no such user")
        case "fk_locks_repository_id":
            return NotFound(Reason.REPOSITORY_NOT_FOUND, "repository_id: there is no such repository")
    return error


async def list_locks(
    connection: AsyncConnection,
    *,
    repository_id: int,
    after: int | None,
    limit: int,
    path: str | None = None,
    lock_id: int | None = None,
) -> tuple[Sequence[StandingLock], bool]:
    """Return at most `limit` locks of a repository by id, and whether more follow.

    `after` is the id of the last lock of the previous page. `path` and `lock_id` select one lock.
    """
    statement = _standing().where(col(Lock.repository_id) == repository_id)
    if after is not None:
        statement = statement.where(col(Lock.id) > after)
    if path is not None:
        statement = statement.where(col(Lock.path_hash) == path_hash(path))
    if lock_id is not None:
        statement = statement.where(col(Lock.id) == lock_id)
    # One more than asked for tells whether there are more.
    rows = (await connection.execute(statement.order_by(col(Lock.id)).limit(limit + 1))).all()
    return [StandingLock(*row) for row in rows[:limit]], len(rows) > limit


async def hold_lock(connection: AsyncConnection, *, repository_id: int, lock_id: int, user_id: int) -> Removal | None:
    """Return a standing lock of the repository so that no other transaction can remove it before this one ends.

    Where another removes it first, that is waited for, and the answer is None. The name of an unknown user is None.
    """
    user_name = select(col(User.name)).where(col(User.id) == user_id).scalar_subquery()
    user_is_admin = exists().where(
        col(Grant.repository_id) == repository_id, col(Grant.user_id) == user_id, col(Grant.role) == Role.ADMIN.value
    )
    statement = (
        _standing()
        .add_columns(col(Repository.forced_unlock), user_name, user_is_admin)
        .join(Repository, col(Repository.id) == col(Lock.repository_id))
        .where(col(Lock.repository_id) == repository_id, col(Lock.id) == lock_id)
        .with_for_update(of=Lock)
    )
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    *lock, forced_unlock, name, is_admin = row
    return Removal(StandingLock(*lock), forced_unlock, name, is_admin)
