"""The removal of a user, in one transaction."""

from sqlalchemy import delete, exists, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import FailedPrecondition, Reason
from services.locks.access.users import find_user
from services.locks.locking import history
from services.locks.models import Lock, User


async def remove_user(connection: AsyncConnection, name: str, *, release_locks: bool, administrator: User) -> User:
    """Remove a user with its tokens and grants, and return it as it was; its locks move to the history.

    Raises `NotFound` (USER_NOT_FOUND) and `FailedPrecondition` (USER_HOLDS_LOCKS if `release_locks` is false;
    LAST_ADMINISTRATOR). `administrator` is the user that makes the call.
    """
    # Lock the rows of all administrators first: of two that remove each other, the second waits and is refused.
    administrators = (
        await connection.scalars(
            select(col(User.id)).where(col(User.administrator)).order_by(col(User.id)).with_for_update()
        )
    ).all()
    user = await find_user(connection, name, hold=True)
    if list(administrators) == [user.id]:
        raise FailedPrecondition(Reason.LAST_ADMINISTRATOR, f"{name} is the last administrator")
    which = col(Lock.owner_id) == user.id
    if release_locks:
        await history.release_locks(connection, which, released_by_id=administrator.id, released_by=administrator.name)
    elif await connection.scalar(select(exists().where(which))):
        raise FailedPrecondition(Reason.USER_HOLDS_LOCKS, f"{name} holds locks, and release_locks is not set")
    await connection.execute(delete(User).where(col(User.id) == user.id))
    return user
