"""The removal of one lock: one transaction moves it from the table of locks to the history."""

from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import NotFound, Reason
from services.locks.locking.history import find_releases, release_locks
from services.locks.locking.table import LockRemoval, LockWithOwner, select_locks_for_update
from services.locks.locking.unlock_policy import check_unlock
from services.locks.models import Lock, ReleasedLock


async def remove_lock(
    connection: AsyncConnection,
    *,
    repository_id: int,
    lock_id: int,
    user_id: int,
    token_id: int = 0,
    force: bool,
    idempotency_key: str,
    reason: str = "",
    administrator: bool = False,
) -> LockWithOwner:
    """Remove a lock and return it as it was; an `administrator` of the installation may remove any.

    A repeated call with the same user and idempotency key returns the same lock again. Raises `NotFound`
    (LOCK_NOT_FOUND, USER_NOT_FOUND) and the errors of `check_unlock`.
    """
    removals = await select_locks_for_update(
        connection, col(Lock.id) == lock_id, repository_id=repository_id, user_id=user_id, token_id=token_id
    )
    if not removals:
        removed = await find_releases(
            connection,
            col(ReleasedLock.lock_id) == lock_id,
            repository_id=repository_id,
            released_by_id=user_id,
            idempotency_key=idempotency_key,
        )
        if not removed:
            raise NotFound(Reason.LOCK_NOT_FOUND, "id: there is no such lock in this repository")
        return removed[0]
    [removal] = removals
    if removal.user_name is None:
        raise NotFound(Reason.USER_NOT_FOUND, "user_id: there is no such user")
    if not administrator:
        check_removal(removal, user_id=user_id, force=force)
    await release_locks(
        connection,
        col(Lock.id) == lock_id,
        released_by_id=user_id,
        released_by=removal.user_name,
        idempotency_key=idempotency_key,
        reason=reason,
    )
    return removal.lock


def check_removal(removal: LockRemoval, *, user_id: int, force: bool) -> None:
    """Raise the errors of `check_unlock` unless the user may remove this lock."""
    owner_name = removal.lock.owner_name
    if removal.lock.owner_id == user_id:
        owner_name += ", for another ref"
    check_unlock(
        own=removal.is_own,
        owner_name=owner_name,
        force=force,
        forced_unlock=removal.forced_unlock,
        writes_every_ref=removal.user_writes_every_ref,
        admin=removal.user_is_admin,
    )
