"""Removals of users, and of repositories; both change locks as well as access.

A repository first becomes unreachable, and then the storage service removes its objects. A crash between the two steps
leaves a record of the unfinished removal. The next start, or a repeated call, finishes it.
"""

from functools import partial

from sqlalchemy import delete, exists, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import Aborted, FailedPrecondition, NotFound, Reason, ServiceError
from services.common.observability.logs import get_logger
from services.database.transactions import Database
from services.locks.access.users import find_user
from services.locks.locking import history
from services.locks.models import Lock, RemovedRepository, Repository, User
from services.locks.repositories import (
    find_repository,
    forget_removed,
    has_locks,
    list_removed,
    move_to_removed,
    repository_not_found,
)
from services.locks.storage_client import StorageClient

_log = get_logger(__name__)


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


async def remove_repository(
    database: Database, storage: StorageClient, name: str, *, force: bool, administrator: User
) -> Repository | RemovedRepository:
    """Remove a repository with its grants, locks and objects; return it as it was. Its locks move to the history.

    Raises `NotFound` (REPOSITORY_NOT_FOUND), `FailedPrecondition` (REPOSITORY_NOT_EMPTY: it has objects or locks, and
    `force` is false), `Aborted` if the name has passed to another repository, and the errors of the storage service;
    the caller can repeat the call after the last two.
    """
    try:
        repository = await database.run(partial(find_repository, name=name))
        if not force:
            request = pb.GetUsageRequest(repository_ids=[repository.id])
            usage = await storage.call(storage.objects.GetUsage, request)
            if usage.repositories[0].object_count:
                raise _not_empty(name, "objects")
        removed = await database.run(partial(_detach, checked=repository, force=force, administrator=administrator))
    except NotFound:
        return await _finish_removal_of(database, storage, name)
    await _forget(database, storage, removed.id)
    return removed


async def _detach(connection: AsyncConnection, checked: Repository, *, force: bool, administrator: User) -> Repository:
    repository = await find_repository(connection, checked.name, hold=True)
    if repository.id != checked.id:
        raise Aborted(Reason.UNAVAILABLE, f"{checked.name} is another repository now; try again")
    if not force and await has_locks(connection, repository.id):
        raise _not_empty(repository.name, "locks")
    await history.release_locks(
        connection,
        col(Lock.repository_id) == repository.id,
        released_by_id=administrator.id,
        released_by=administrator.name,
    )
    await move_to_removed(connection, repository)
    return repository


async def _finish_removal_of(database: Database, storage: StorageClient, name: str) -> RemovedRepository:
    latest = next((removed for removed in reversed(await database.run(list_removed)) if removed.name == name), None)
    if latest is None:
        raise repository_not_found(name)
    await _forget(database, storage, latest.id)
    return latest


async def finish_removals(database: Database, storage: StorageClient) -> None:
    """Finish earlier removals in the storage service. A failure is logged, and the rest is left to the next start."""
    try:
        for removed in await database.run(list_removed):
            await _forget(database, storage, removed.id)
            _log.info("removal finished", repository=removed.name, repository_id=removed.id)
    except ServiceError as error:
        _log.warning("removal not finished", reason=error.reason, message=error.message)


async def _forget(database: Database, storage: StorageClient, repository_id: int) -> None:
    await storage.call(storage.objects.DeleteRepository, pb.DeleteRepositoryRequest(repository_id=repository_id))
    await database.run(partial(forget_removed, repository_id=repository_id))


def _not_empty(name: str, what: str) -> FailedPrecondition:
    return FailedPrecondition(Reason.REPOSITORY_NOT_EMPTY, f"{name} holds {what}, and force is not set")
