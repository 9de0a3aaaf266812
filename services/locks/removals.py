"""Removals of users, and of repositories; both change locks as well as access.

A repository is in the bin for a time, where nobody reaches it, with all that it has. It is removed for good in two
steps: its row goes, and then the storage service removes its objects. A crash between the two steps leaves a record of
the unfinished removal. A lock service finishes it within ten minutes, or a repeated call does.
"""

from contextlib import suppress
from functools import partial
from typing import Never

from sqlalchemy import delete, exists, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.concurrency.periodic import run_periodically
from services.common.errors import Aborted, FailedPrecondition, NotFound, Reason, ServiceError
from services.common.observability.logs import get_logger
from services.database.transactions import Database
from services.locks.access.users import find_user
from services.locks.audit.event_types import REPOSITORY_PURGED, REPOSITORY_REMOVED, REPOSITORY_RESTORED
from services.locks.audit.recorder import BIN, acting, record
from services.locks.locking import history
from services.locks.models import Lock, RemovedRepository, Repository, User
from services.locks.repositories import (
    find_in_bin,
    find_repository,
    forget_removed,
    has_locks,
    list_bin,
    list_removed,
    move_to_bin,
    move_to_removed,
    repository_not_found,
    take_out_of_bin,
)
from services.locks.repository_names import forget_expired, own_name
from services.locks.storage_client import StorageClient

_INTERVAL_SECONDS = 600.0
# The name under which the service removes what nobody has restored.
_OWN_NAME = "towpath"

_log = get_logger(__name__)


async def remove_user(connection: AsyncConnection, name: str, *, release_locks: bool, administrator: User) -> User:
    """Remove a user with its tokens and grants, and return it as it was; its locks move to the history.

    Locks in repositories in the bin do not bar the removal. Raises `NotFound` (USER_NOT_FOUND) and
    `FailedPrecondition` (USER_HOLDS_LOCKS if `release_locks` is false; LAST_ADMINISTRATOR). `administrator` is the user
    that makes the call.
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
    # Nobody sees the locks of a repository in the bin.
    in_bin = select(col(Repository.id)).where(col(Repository.in_bin_since).is_not(None))
    unseen = which & col(Lock.repository_id).in_(in_bin)
    await history.release_locks(connection, unseen, released_by_id=administrator.id, released_by=administrator.name)
    if release_locks:
        await history.release_locks(connection, which, released_by_id=administrator.id, released_by=administrator.name)
    elif await connection.scalar(select(exists().where(which))):
        raise FailedPrecondition(Reason.USER_HOLDS_LOCKS, f"{name} holds locks, and release_locks is not set")
    await connection.execute(delete(User).where(col(User.id) == user.id))
    return user


async def remove_repository(
    database: Database, storage: StorageClient, name: str, *, force: bool, administrator: User, bin_days: int
) -> Repository | RemovedRepository:
    """Move a repository to the bin for `bin_days`, or remove it for good if these are 0; return it.

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
        removing = partial(_remove, checked=repository, force=force, administrator=administrator, bin_days=bin_days)
        removed = await database.run(removing)
    except NotFound:
        return await _finish_removal_of(database, storage, name)
    if not bin_days:
        await _forget(database, storage, removed.id)
    return removed


async def _remove(
    connection: AsyncConnection, checked: Repository, *, force: bool, administrator: User, bin_days: int
) -> Repository:
    repository = await find_repository(connection, checked.name, hold=True)
    if repository.id != checked.id:
        raise Aborted(Reason.UNAVAILABLE, f"{checked.name} is another repository now; try again")
    if not force and await has_locks(connection, repository.id):
        raise _not_empty(repository.name, "locks")
    if bin_days:
        await _record(connection, REPOSITORY_REMOVED, repository)
        return await move_to_bin(connection, repository, days=bin_days)
    await _detach(connection, repository, released_by_id=administrator.id, released_by=administrator.name)
    return repository


async def restore_repository(
    connection: AsyncConnection, name: str, *, repository_id: int, new_name: str
) -> Repository:
    """Take a repository out of the bin, and return it. Raises the errors of `repositories.take_out_of_bin`."""
    restored = await take_out_of_bin(connection, name, repository_id=repository_id, new_name=new_name)
    await _record(connection, REPOSITORY_RESTORED, restored)
    return restored


async def _record(connection: AsyncConnection, type_: str, repository: Repository) -> None:
    """Record what has become of a repository under its own name; triggers know only that of its row."""
    name = own_name(repository)
    await record(connection, type_, subject=f"repository {name}", repository=name, after={"id": repository.id})


async def _detach(
    connection: AsyncConnection, repository: Repository, *, released_by_id: int, released_by: str
) -> None:
    """Remove the row of a repository, its locks, which move to the history, and its grants."""
    which = col(Lock.repository_id) == repository.id
    await history.release_locks(connection, which, released_by_id=released_by_id, released_by=released_by)
    await move_to_removed(connection, repository)


async def purge_repository(
    database: Database, storage: StorageClient, name: str, *, repository_id: int, administrator: User
) -> Repository | RemovedRepository:
    """Remove a repository that is in the bin for good, and return it as it was; its locks move to the history.

    Raises the errors of `repositories.find_in_bin` and those of the storage service, after which the caller can repeat
    the call.
    """

    async def work(connection: AsyncConnection) -> Repository:
        repository = await find_in_bin(connection, name, repository_id=repository_id)
        await _record(connection, REPOSITORY_PURGED, repository)
        await _detach(connection, repository, released_by_id=administrator.id, released_by=administrator.name)
        return repository

    try:
        purged = await database.run(work)
    except NotFound as error:
        unfinished = await _find_unfinished(database, name, repository_id=repository_id)
        if unfinished is None:
            raise error from None
        await _forget(database, storage, unfinished.id)
        return unfinished
    await _forget(database, storage, purged.id)
    return purged


async def keep_emptying_bin(database: Database, storage: StorageClient) -> Never:
    """Every ten minutes, remove what has been in the bin for its time, finish removals, and forget expired names."""

    async def work() -> None:
        await database.run(forget_expired)
        for repository in await database.run(partial(list_bin, due=True)):
            await _purge_due(database, repository)
        await _finish_removals(database, storage)

    await run_periodically(work, _INTERVAL_SECONDS, trouble="the bin of repositories is not emptied")


async def _purge_due(database: Database, due: Repository) -> None:
    async def work(connection: AsyncConnection) -> None:
        # Another lock service may have been first, or an administrator, who may have restored it.
        with suppress(NotFound):
            repository = await find_in_bin(connection, due.removed_name, repository_id=due.id)
            if repository.in_bin_until == due.in_bin_until:
                await _record(connection, REPOSITORY_PURGED, repository)
                await _detach(connection, repository, released_by_id=0, released_by=_OWN_NAME)

    with acting(_OWN_NAME, BIN):
        await database.run(work)


async def _finish_removal_of(database: Database, storage: StorageClient, name: str) -> RemovedRepository:
    latest = await _find_unfinished(database, name)
    if latest is None:
        raise repository_not_found(name)
    await _forget(database, storage, latest.id)
    return latest


async def _find_unfinished(database: Database, name: str, *, repository_id: int = 0) -> RemovedRepository | None:
    """Return the latest removal of that name, or of that id, whose objects remain to be removed."""
    for removed in reversed(await database.run(list_removed)):
        if removed.name == name and repository_id in (0, removed.id):
            return removed
    return None


async def _finish_removals(database: Database, storage: StorageClient) -> None:
    """Finish earlier removals in the storage service. A failure is logged, and the rest is left to the next time."""
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
