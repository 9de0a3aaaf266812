"""The theft of a lock: one transaction replaces another user's lock, so that the path is free at no time.

The transaction takes the rows of the repository and the users, the lock that creations share, the row of the standing
lock, and the rows of the counts, in this order, so that no two transactions wait for each other.
"""

from dataclasses import dataclass

from sqlalchemy import RowMapping, select, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import NotFound, Reason
from services.locks.locking.history import release_locks
from services.locks.locking.table import (
    STANDING,
    LockLimits,
    LockWithOwner,
    select_locks_for_update,
    too_many_locks,
)
from services.locks.locking.unlock_policy import check_steal
from services.locks.models import Lock, ReleasedLock
from services.locks.ref_patterns import kept_ref

_HOLD_PARTIES = text("""
    SELECT users.name FROM locks.users JOIN locks.repositories ON repositories.id = :repository_id
    WHERE users.id = :user_id FOR KEY SHARE
""")
# Alone, as batches are; a theft adds no lock to the repository, so that only the limit of the user counts.
_ROOM = text("SELECT locks.room_for_lock(:repository_id, :user_id, :unlimited, :per_user, true)")
_UNLIMITED = 2**62
# The triggers update a row for each owner in turn; here both are taken in the order of the users.
_HOLD_COUNTS = text("""
    INSERT INTO locks.locks_per_user AS counted (repository_id, user_id, stripe, count)
    SELECT :repository_id, user_id, pg_backend_pid() % 16, 0
    FROM unnest(CAST(:users AS bigint[])) AS user_id ORDER BY user_id
    ON CONFLICT (repository_id, user_id, stripe) DO UPDATE SET count = counted.count
""")
_CREATE = text("""
    INSERT INTO locks.locks
        (repository_id, path, path_hash, space, owner_id, locked_at, idempotency_key, note, stolen_from, ref)
    SELECT repository_id, path, path_hash, space, :user_id, date_trunc('second', now()), :key, :note, lock_id, :ref
    FROM locks.released_locks WHERE lock_id = :lock_id
""")
_STANDING = text(f"""
    SELECT locks.stolen_from, {STANDING} FROM locks.locks JOIN locks.users ON users.id = locks.owner_id
    WHERE locks.repository_id = :repository_id AND locks.path_hash = :path_hash
""")  # noqa: S608 - our own names


@dataclass(frozen=True, slots=True)
class Theft:
    """The lock that now stands on the path, and the released lock that it has replaced.

    `previous` is None if this call has stolen nothing: the lock to steal was gone, and another lock stands on its path.
    """

    lock: LockWithOwner
    previous: ReleasedLock | None


async def steal_lock(
    connection: AsyncConnection,
    *,
    repository_id: int,
    lock_id: int,
    user_id: int,
    token_id: int = 0,
    reason: str,
    note: str,
    idempotency_key: str,
    limits: LockLimits,
    ref: str = "",
    administrator: tuple[int, str] | None = None,
) -> Theft:
    """Replace another user's lock by a lock of the user on the same path, as for a ref.

    With `administrator`, the id and the name of an administrator of the installation, that administrator makes the call
    for the user, and may steal any lock. A repeated call with the same caller and idempotency key returns the same
    theft again as long as the new lock stands. Raises `NotFound` (LOCK_NOT_FOUND, USER_NOT_FOUND), `ResourceExhausted`
    (TOO_MANY_LOCKS), and the errors of `check_steal`.
    """
    parties = {"repository_id": repository_id, "user_id": user_id}
    user_name = await connection.scalar(_HOLD_PARTIES, parties)
    if user_name is None:
        raise NotFound(Reason.USER_NOT_FOUND, "user_id: there is no such user, or no such repository")
    caller_id, caller = administrator or (user_id, user_name)
    room = await connection.scalar(_ROOM, {**parties, "unlimited": _UNLIMITED, "per_user": limits.per_user})
    removals = await select_locks_for_update(
        connection, col(Lock.id) == lock_id, repository_id=repository_id, user_id=user_id, token_id=token_id
    )
    if not removals:
        return await _earlier(connection, repository_id, lock_id, caller_id, idempotency_key)
    [removal] = removals
    check_steal(
        own=removal.is_own,
        owner_name=removal.lock.owner_name,
        stale=removal.is_stale or administrator is not None,
        forced_unlock=removal.forced_unlock,
        writes_every_ref=removal.user_writes_every_ref,
        admin=removal.user_is_admin,
    )
    if room == "user":
        raise too_many_locks(room, limits)
    users = list({removal.lock.owner_id, user_id})
    await connection.execute(_HOLD_COUNTS, {"repository_id": repository_id, "users": users})
    await release_locks(
        connection,
        col(Lock.id) == lock_id,
        released_by_id=caller_id,
        released_by=caller,
        idempotency_key=idempotency_key,
        reason=reason,
        stolen=True,
    )
    made = {"user_id": user_id, "key": idempotency_key, "note": note, "lock_id": lock_id, "ref": kept_ref(ref)}
    await connection.execute(_CREATE, made)
    return await _earlier(connection, repository_id, lock_id, caller_id, idempotency_key)


async def _earlier(
    connection: AsyncConnection, repository_id: int, lock_id: int, caller_id: int, idempotency_key: str
) -> Theft:
    """Return the theft of a released lock, or the lock that stands on its path. Raises `NotFound` (LOCK_NOT_FOUND)."""
    released = await _released(connection, repository_id, lock_id)
    if released is not None:
        place = {"repository_id": repository_id, "path_hash": released.path_hash}
        if row := (await connection.execute(_STANDING, place)).one_or_none():
            stolen_from, *lock = row
            is_mine = (released.released_by_id, released.idempotency_key) == (caller_id, idempotency_key)
            return Theft(LockWithOwner(*lock), released if is_mine and stolen_from == lock_id else None)
    raise NotFound(Reason.LOCK_NOT_FOUND, "id: there is no such lock in this repository")


async def _released(connection: AsyncConnection, repository_id: int, lock_id: int) -> ReleasedLock | None:
    statement = select(*ReleasedLock.__table__.c).where(
        col(ReleasedLock.lock_id) == lock_id, col(ReleasedLock.repository_id) == repository_id
    )
    row: RowMapping | None = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else ReleasedLock(**row)
