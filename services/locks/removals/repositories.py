"""The removal of a repository: first it becomes unreachable, then the storage service removes its objects.

A crash between the two steps leaves a record of the unfinished removal. The next start, or a repeated call, finishes
it.
"""

from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import Aborted, FailedPrecondition, NotFound, Reason, ServiceError
from services.common.observability.logs import get_logger
from services.database.transactions import Database
from services.locks.locking.history import release_locks
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


async def remove_repository(
    database: Database, storage: StorageClient, name: str, *, force: bool, administrator: User
) -> Repository | RemovedRepository:
    """Remove a repository with its grants, locks and objects; return it as it was. Its locks move to the history.

    Raises `NotFound` (REPOSITORY_NOT_FOUND), `FailedPrecondition` (REPOSITORY_NOT_EMPTY: it has objects or locks, and
    `force` is false), `Aborted` if the name has passed to another repository, and the errors of the storage service;
    the caller can repeat the call after the last two.
    """

    async def find(connection: AsyncConnection) -> Repository:
        return await find_repository(connection, name)

    async def detach(connection: AsyncConnection) -> Repository:
        return await _detach(connection, repository, force=force, administrator=administrator)

    try:
        repository = await database.run(find)
        if not force and (await storage.usage([repository.id])).repositories[0].object_count:
            raise _not_empty(name, "objects")
        removed = await database.run(detach)
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
    await release_locks(
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
    await storage.delete_repository(repository_id)

    async def work(connection: AsyncConnection) -> None:
        await forget_removed(connection, repository_id)

    await database.run(work)


def _not_empty(name: str, what: str) -> FailedPrecondition:
    return FailedPrecondition(Reason.REPOSITORY_NOT_EMPTY, f"{name} holds {what}, and force is not set")
