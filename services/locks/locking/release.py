"""The removal of one lock: one transaction moves it from the table of locks to the history."""

from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import NotFound, Reason
from services.locks.locking.history import find_release, release_locks
from services.locks.locking.table import LockWithOwner, select_lock_for_update
from services.locks.locking.unlock_policy import check_unlock
from services.locks.models import Lock


async def remove_lock(
    connection: AsyncConnection,
    *,
    repository_id: int,
    lock_id: int,
    user_id: int,
    force: bool,
    idempotency_key: str,
    administrator: bool = False,
) -> LockWithOwner:
    """Remove a lock and return it as it was; an `administrator` of the installation may remove any.

    A repeated call with the same user and idempotency key returns the same lock again. Raises `NotFound`
    (LOCK_NOT_FOUND, USER_NOT_FOUND) and the errors of `check_unlock`.
    """
    removal = await select_lock_for_update(connection, repository_id=repository_id, lock_id=lock_id, user_id=user_id)
    if removal is None:
        removed = await find_release(
            connection,
            repository_id=repository_id,
            lock_id=lock_id,
            released_by_id=user_id,
            idempotency_key=idempotency_key,
        )
        if removed is None:
            raise NotFound(Reason.LOCK_NOT_FOUND, "id: there is no such lock in this repository")
        return removed
    if removal.user_name is None:
        raise NotFound(Reason.USER_NOT_FOUND, "user_id: there is no such user")
    if not administrator:
        check_unlock(
            own=removal.lock.owner_id == user_id,
            owner_name=removal.lock.owner_name,
            force=force,
            forced_unlock=removal.forced_unlock,
            writes_every_ref=removal.user_writes_every_ref,
            admin=removal.user_is_admin,
        )
    await release_locks(
        connection,
        col(Lock.id) == lock_id,
        released_by_id=user_id,
        released_by=removal.user_name,
        idempotency_key=idempotency_key,
    )
    return removal.lock
