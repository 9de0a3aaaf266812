"""The table of standing locks: creation, and selection for removal.

The table's unique constraint alone ensures that only one of many concurrent callers gets a path.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from asyncpg import IntegrityConstraintViolationError
from sqlalchemy import ARRAY, ColumnElement, Text, and_, any_, exists, false, func, not_, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import Aborted, NotFound, Reason, ResourceExhausted
from services.database.engine import violated
from services.database.statement import Statement
from services.database.transactions import Database
from services.locks.access.grants import ACCESS_GRANTS, granted
from services.locks.access.policy import Role
from services.locks.locking.paths import path_hash
from services.locks.locking.spaces import KnownRules, space_of
from services.locks.models import Lock, Repository, User
from services.locks.ref_patterns import kept_ref

_ATTEMPTS = 10

# Results of the SQL function `room_for_lock`; its other results name the limit that is reached.
_ROOM = "room"
_NEAR = "near"
# The result in their place, if the rules for spaces that the caller knows are not the present ones.
_OTHER_RULES = "rules"

# Hot path: literal SQL, because building a statement with SQLAlchemy costs more than executing it.
STANDING = "locks.id, locks.path, locks.locked_at, locks.owner_id, users.name, locks.note, locks.space"
"""The columns of a `LockWithOwner`."""

_CREATE = f"""
    WITH changed AS MATERIALIZED (
        SELECT lock_spaces FROM locks.repositories WHERE id = $1 AND lock_spaces <> $11
    ), room AS MATERIALIZED (
        SELECT CASE WHEN EXISTS (SELECT FROM changed) THEN '{_OTHER_RULES}'
            ELSE locks.room_for_lock($1, $4, $6, $7, $8) END AS found
    ), made AS (
        INSERT INTO locks.locks (repository_id, path, path_hash, owner_id, locked_at, idempotency_key, note, space, ref)
        SELECT $1, $2, $3, $4, date_trunc('second', now()), $5, $9, $10, $12 FROM room WHERE found = '{_ROOM}'
        ON CONFLICT (repository_id, path_hash) DO NOTHING
        RETURNING id, path, locked_at, owner_id, idempotency_key, note, space
    ), standing AS (
        SELECT made.id, made.path, made.locked_at, made.owner_id, users.name, made.note, made.space,
            made.idempotency_key
        FROM made JOIN locks.users ON users.id = made.owner_id
        UNION ALL
        SELECT {STANDING}, locks.idempotency_key
        FROM locks.locks JOIN locks.users ON users.id = locks.owner_id
        WHERE locks.repository_id = $1 AND locks.path_hash = $3
            -- The one that stood when the statement began may have made way while the insert waited for it.
            AND NOT EXISTS (SELECT FROM made)
    )
    SELECT room.found, (SELECT lock_spaces FROM changed), standing.* FROM room LEFT JOIN standing ON true
"""  # noqa: S608 - our own names


class LockWithOwner(NamedTuple):
    """A lock and its owner's name. `locked_at` is in whole seconds."""

    id: int
    path: str
    locked_at: datetime
    owner_id: int
    owner_name: str
    note: str = ""
    space: str = ""


@dataclass(frozen=True, slots=True)
class LockRemoval:
    """A standing lock, its row locked until the transaction ends, and the input of the unlock policy for a user.

    `is_own` is true for a lock of the user; with a program's token that may not write every ref, only for a lock that
    was created for a ref that it may write, because the jobs of a program are one user and do not trust each other.
    """

    lock: LockWithOwner
    is_own: bool
    forced_unlock: str
    user_name: str | None
    user_writes_every_ref: bool
    user_is_admin: bool
    is_stale: bool


@dataclass(frozen=True, slots=True)
class LockLimits:
    """The maximum number of locks that may stand in a repository, and that one user may own there."""

    per_repository: int
    per_user: int


def create_statement(
    *,
    repository_id: int,
    user_id: int,
    path: str,
    idempotency_key: str,
    limits: LockLimits,
    alone: bool,
    note: str = "",
    space: str = "",
    rules: Sequence[str] | None = None,
    ref: str = "",
) -> Statement:
    """Return the statement that creates a lock, or finds the lock that already stands on the path.

    Its row has the result of `room_for_lock`, NULL, the lock and its idempotency key. If `rules` are given and are not
    the repository's rules for spaces, the row has the present rules in place of NULL, and no lock is created. The lock
    is NULL if there is no room and none stands on the path, or if the standing lock was committed after the statement
    began: the next statement sees it. Near a limit, only a statement that runs `alone` in the repository creates one.
    """
    most = (limits.per_repository, limits.per_user)
    owned = (repository_id, path, path_hash(path, space), user_id, idempotency_key)
    return Statement(_CREATE, (*owned, *most, alone, note, space, rules, kept_ref(ref)))


async def create_lock(
    database: Database,
    *,
    repository_id: int,
    user_id: int,
    path: str,
    idempotency_key: str,
    limits: LockLimits,
    known: KnownRules,
    note: str = "",
    ref: str = "",
) -> tuple[LockWithOwner, bool]:
    """Lock a path in the space of a ref; return the lock that now stands there, and whether it is the caller's.

    It is the caller's if this call, or an earlier call of the same user and idempotency key, created it. Raises
    `NotFound` (USER_NOT_FOUND, REPOSITORY_NOT_FOUND), `ResourceExhausted` (TOO_MANY_LOCKS), and `Aborted` if the path
    was locked and unlocked too often during the call.
    """
    alone = False
    for _ in range(_ATTEMPTS):
        rules = known.get(repository_id) if ref else None
        statement = create_statement(
            repository_id=repository_id,
            user_id=user_id,
            path=path,
            idempotency_key=idempotency_key,
            limits=limits,
            alone=alone,
            note=note,
            space=space_of(rules or (), ref),
            rules=rules,
            ref=ref,
        )
        try:
            [[room, changed, *lock, key]] = await database.fetch(statement)
        except (IntegrityError, IntegrityConstraintViolationError) as error:
            raise unknown_party(error) from error
        if changed is not None:
            known.put(repository_id, changed)
            continue
        if key is not None:
            standing = LockWithOwner(*lock)
            return standing, key == idempotency_key and standing.owner_id == user_id
        if room == _NEAR:
            alone = True
        elif room != _ROOM:
            raise too_many_locks(room, limits)
    raise Aborted(Reason.UNAVAILABLE, "the lock of this path changes too fast; try again")


def too_many_locks(limit: str, limits: LockLimits) -> ResourceExhausted:
    """Return the error for a limit that is reached: that of the `user`, or of the `repository`."""
    if limit == "user":
        problem = f"you hold {limits.per_user} locks in this repository, the most that a user may (locks_per_user)"
    else:
        problem = f"{limits.per_repository} locks stand in this repository, the most that may (locks_per_repository)"
    return ResourceExhausted(Reason.TOO_MANY_LOCKS, f"{problem}; unlock some that are not needed")


def unknown_party(error: IntegrityError | IntegrityConstraintViolationError) -> Exception:
    """Return the error for a lock whose owner or repository does not exist; `error` itself for any other violation."""
    match violated(error):
        case "fk_locks_owner_id":
            return NotFound(Reason.USER_NOT_FOUND, "user_id: there is no such user")
        case "fk_locks_repository_id":
            return NotFound(Reason.REPOSITORY_NOT_FOUND, "repository_id: there is no such repository")
    return error


async def select_locks_for_update(
    connection: AsyncConnection, which: ColumnElement[bool], *, repository_id: int, user_id: int, token_id: int = 0
) -> Sequence[LockRemoval]:
    """Return standing locks of the repository, and bar other transactions from removing them before this one ends.

    Each has the rights of a user who presents this token.

    If another transaction is removing a lock, wait for that transaction, and omit the lock if it commits. `user_name`
    is None for an unknown user. Every caller takes the row locks in the order of the paths.
    """
    user_name = select(col(User.name)).where(col(User.id) == user_id).scalar_subquery()
    is_administrator = exists().where(col(User.id) == user_id, col(User.administrator))
    grant = ACCESS_GRANTS.c
    of_every_ref = exists().where(
        granted(repository_id, user_id=user_id, token_id=token_id), func.cardinality(grant.ref_patterns) == 0
    )
    writes_every_ref = of_every_ref.where(grant.role.in_([Role.WRITE.value, Role.ADMIN.value]))
    is_admin = of_every_ref.where(grant.role == Role.ADMIN.value)
    is_own: ColumnElement[bool] = col(Lock.owner_id) == user_id
    if token_id:
        of_program = exists().where(
            grant.source == "issuer", grant.token_id == token_id, grant.repository_id == repository_id
        )
        refs = select(func.unnest(grant.ref_patterns)).where(
            granted(repository_id, user_id=user_id, token_id=token_id),
            grant.role.in_([Role.WRITE.value, Role.ADMIN.value]),
        )
        may_write = col(Lock.ref) == any_(func.array(refs.scalar_subquery(), type_=ARRAY(Text)))
        is_own = and_(is_own, or_(not_(of_program), writes_every_ref, may_write))
    standing = (
        col(Lock.id),
        col(Lock.path),
        col(Lock.locked_at),
        col(Lock.owner_id),
        col(User.name),
        col(Lock.note),
        col(Lock.space),
    )
    stale_after = func.make_interval(0, 0, 0, 0, 0, 0, col(Repository.stale_after_seconds))
    is_stale = func.coalesce(col(Lock.locked_at) < func.now() - stale_after, false())
    may = (or_(is_administrator, writes_every_ref), is_admin, is_stale)
    statement = (
        select(*standing, is_own, col(Repository.forced_unlock), user_name, *may)
        .join_from(Lock, User, col(Lock.owner_id) == col(User.id))
        .join(Repository, col(Repository.id) == col(Lock.repository_id))
        .where(col(Lock.repository_id) == repository_id, which)
        .order_by(col(Lock.path))
        .with_for_update(of=Lock)
    )
    return [
        LockRemoval(LockWithOwner(*lock), own, forced_unlock, name, writes, admin, stale)
        for *lock, own, forced_unlock, name, writes, admin, stale in await connection.execute(statement)
    ]
