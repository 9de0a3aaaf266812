"""Repositories, and removed repositories whose objects the storage service has not removed yet."""

from collections.abc import Sequence

from sqlalchemy import delete, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import AlreadyExists, NotFound, Reason
from services.database.engine import violated
from services.locks.look_alikes import already_exists_message, find_look_alike
from services.locks.models import Lock, RemovedRepository, Repository

_REPOSITORY = Repository.__table__.c
_REMOVED = RemovedRepository.__table__.c


def _exists_already(field: str, name: str, found: str) -> AlreadyExists:
    return AlreadyExists(Reason.REPOSITORY_EXISTS, f"{field}: {already_exists_message('repository', name, found)}")


def repository_not_found(name: str) -> NotFound:
    """Return the error for a name that no repository has."""
    return NotFound(Reason.REPOSITORY_NOT_FOUND, f"there is no repository {name}")


async def names_of(connection: AsyncConnection, repository_ids: Sequence[int]) -> list[str]:
    """Return the names of those of the repositories that exist, in order."""
    names = select(col(Repository.name)).where(col(Repository.id).in_(repository_ids)).order_by(col(Repository.name))
    return list(await connection.scalars(names))


async def names_by_id(connection: AsyncConnection, repository_ids: Sequence[int]) -> dict[int, str]:
    """Return the names of those of the repositories that exist, by id."""
    statement = select(col(Repository.id), col(Repository.name)).where(col(Repository.id).in_(repository_ids))
    return {row.id: row.name for row in await connection.execute(statement)}


async def create_repository(
    connection: AsyncConnection,
    name: str,
    *,
    public: bool,
    forced_unlock: str,
    stale_after_seconds: int | None = None,
    history_seconds: int | None = None,
    lock_spaces: Sequence[str] = (),
    forge_id: int | None = None,
    forge_repository: str = "",
    restricted: bool = False,
) -> Repository:
    """Add a repository. Raises `AlreadyExists` (REPOSITORY_EXISTS), also if an existing name differs only in case."""
    if found := await find_look_alike(connection, col(Repository.name), name):
        raise _exists_already("name", name, found)
    statement = (
        insert(Repository)
        .values(
            name=name,
            public=public,
            forced_unlock=forced_unlock,
            stale_after_seconds=stale_after_seconds,
            history_seconds=history_seconds,
            lock_spaces=list(lock_spaces),
            forge_id=forge_id,
            forge_repository=forge_repository,
            restricted=restricted,
        )
        .on_conflict_do_nothing(index_elements=["name"])
        .returning(*_REPOSITORY)
    )
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is None:
        raise _exists_already("name", name, name)
    return Repository(**row)


async def find_repository(connection: AsyncConnection, name: str, *, hold: bool = False) -> Repository:
    """Return the repository of that name. Raises `NotFound` (REPOSITORY_NOT_FOUND).

    With `hold`, no other transaction can change the repository, or add grants or locks to it, before this one ends.
    """
    statement = select(*_REPOSITORY).where(col(Repository.name) == name)
    if hold:
        statement = statement.with_for_update()
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is None:
        raise repository_not_found(name)
    return Repository(**row)


async def list_repositories(connection: AsyncConnection) -> Sequence[Repository]:
    """Return all repositories, ordered by name."""
    rows = (await connection.execute(select(*_REPOSITORY).order_by(col(Repository.name)))).mappings()
    return [Repository(**row) for row in rows]


async def update_repository(connection: AsyncConnection, name: str, changes: dict[str, object]) -> Repository:
    """Change columns of the repository of that name and return it as it is now.

    Raises `NotFound` (REPOSITORY_NOT_FOUND) and `AlreadyExists` (REPOSITORY_EXISTS: the new name is taken, or differs
    from an existing name only in case).
    """
    repository = await find_repository(connection, name, hold=True)
    if not changes:
        return repository
    new_name = str(changes.get("name", name))
    # A repository would be found as its own look-alike, but the case of its name may be changed.
    if new_name.lower() != name.lower() and (
        found := await find_look_alike(connection, col(Repository.name), new_name)
    ):
        raise _exists_already("new_name", new_name, found)
    statement = update(Repository).where(col(Repository.id) == repository.id).values(**changes).returning(*_REPOSITORY)
    try:
        return Repository(**(await connection.execute(statement)).mappings().one())
    except IntegrityError as error:
        if violated(error) == "uq_repositories_name":
            raise _exists_already("new_name", new_name, new_name) from error
        raise


async def has_locks(connection: AsyncConnection, repository_id: int) -> bool:
    """Return whether locks stand in a repository."""
    return bool(await connection.scalar(select(exists().where(col(Lock.repository_id) == repository_id))))


async def count_locks(connection: AsyncConnection, repository_ids: Sequence[int]) -> dict[int, int]:
    """Return how many locks stand in each of the repositories that have any."""
    statement = (
        select(col(Lock.repository_id), func.count().label("locks"))
        .where(col(Lock.repository_id).in_(repository_ids))
        .group_by(col(Lock.repository_id))
    )
    return {row.repository_id: row.locks for row in await connection.execute(statement)}


async def move_to_removed(connection: AsyncConnection, repository: Repository) -> None:
    """Remove a repository without standing locks, and its grants; record that its objects remain to be removed."""
    statement = (
        delete(Repository)
        .where(col(Repository.id) == repository.id)
        .returning(*(_REPOSITORY[column.name] for column in _REMOVED))
        .cte("gone")
    )
    await connection.execute(insert(RemovedRepository).from_select(_REMOVED.keys(), select(statement)))


async def list_removed(connection: AsyncConnection) -> Sequence[RemovedRepository]:
    """Return the removed repositories whose objects remain to be removed, the latest created last."""
    rows = (await connection.execute(select(*_REMOVED).order_by(col(RemovedRepository.id)))).mappings()
    return [RemovedRepository(**row) for row in rows]


async def forget_removed(connection: AsyncConnection, repository_id: int) -> None:
    """Delete the record of a removed repository, after the storage service has removed its objects."""
    await connection.execute(delete(RemovedRepository).where(col(RemovedRepository.id) == repository_id))
