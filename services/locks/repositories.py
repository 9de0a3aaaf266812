"""Repositories, those in the bin, and those whose objects the storage service has not removed yet."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from sqlalchemy import delete, exists, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import AlreadyExists, NotFound, Reason
from services.database.engine import violated
from services.locks.look_alikes import already_exists_message, find_look_alike
from services.locks.models import Lock, RemovedRepository, Repository
from services.locks.repository_names import keep_earlier_name, name_in_bin, own_name, take_name

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
    """Add a repository; no other one is found by its name any more.

    Raises `AlreadyExists` (REPOSITORY_EXISTS), also if an existing name differs only in case.
    """
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
    await take_name(connection, name)
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


async def list_repositories(connection: AsyncConnection, *, with_bin: bool) -> Sequence[Repository]:
    """Return all repositories, ordered by name; those in the bin only on demand."""
    statement = select(*_REPOSITORY).order_by(col(Repository.name))
    if not with_bin:
        statement = statement.where(col(Repository.in_bin_since).is_(None))
    return [Repository(**row) for row in (await connection.execute(statement)).mappings()]


async def update_repository(
    connection: AsyncConnection, name: str, changes: dict[str, object], *, alias_days: int
) -> Repository:
    """Change columns of the repository of that name and return it as it is now.

    After a rename, the earlier name leads to it for `alias_days`. Raises `NotFound` (REPOSITORY_NOT_FOUND) and
    `AlreadyExists` (REPOSITORY_EXISTS: the new name is taken, or differs from an existing name only in case).
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
        row = (await connection.execute(statement)).mappings().one()
    except IntegrityError as error:
        if violated(error) == "uq_repositories_name":
            raise _exists_already("new_name", new_name, new_name) from error
        raise
    if new_name != name:
        await take_name(connection, new_name)
        if alias_days:
            await keep_earlier_name(connection, repository.id, name, days=alias_days)
    return Repository(**row)


async def move_to_bin(connection: AsyncConnection, repository: Repository, *, days: int) -> Repository:
    """Move a repository to the bin, with all that it has, and return it as it is then."""
    values = {
        "name": name_in_bin(repository),
        "removed_name": repository.name,
        "in_bin_since": func.now(),
        "in_bin_until": func.now() + timedelta(days=days),
    }
    return await _set(connection, repository, values)


async def find_in_bin(connection: AsyncConnection, name: str, *, repository_id: int) -> Repository:
    """Return the repository that was removed last of those of that name in the bin, or the one with the id; hold it.

    An id of 0 is none. Raises `NotFound` (REPOSITORY_NOT_FOUND).
    """
    statement = select(*_REPOSITORY).where(
        col(Repository.removed_name) == name, col(Repository.in_bin_since).is_not(None)
    )
    if repository_id:
        statement = statement.where(col(Repository.id) == repository_id)
    latest = statement.order_by(col(Repository.in_bin_since).desc(), col(Repository.id).desc()).limit(1)
    row = (await connection.execute(latest.with_for_update())).mappings().one_or_none()
    if row is None:
        raise NotFound(Reason.REPOSITORY_NOT_FOUND, f"there is no repository {name} in the bin")
    return Repository(**row)


async def list_bin(connection: AsyncConnection, *, due: bool = False) -> Sequence[Repository]:
    """Return the repositories in the bin, or only those whose time there is over, the latest removed first."""
    is_listed = col(Repository.in_bin_until) < func.now() if due else col(Repository.in_bin_since).is_not(None)
    statement = select(*_REPOSITORY).where(col(Repository.in_bin_since).is_not(None), is_listed)
    latest_first = statement.order_by(col(Repository.in_bin_since).desc(), col(Repository.id).desc())
    return [Repository(**row) for row in (await connection.execute(latest_first)).mappings()]


async def take_out_of_bin(connection: AsyncConnection, name: str, *, repository_id: int, new_name: str) -> Repository:
    """Take a repository out of the bin, under its own name or a new one, and return it.

    Raises the errors of `find_in_bin`, and `AlreadyExists` (REPOSITORY_EXISTS) if the name is another repository's.
    """
    repository = await find_in_bin(connection, name, repository_id=repository_id)
    wanted = new_name or name
    if found := await find_look_alike(connection, col(Repository.name), wanted):
        raise _exists_already("new_name", wanted, found)
    await take_name(connection, wanted)
    values = {"name": wanted, "removed_name": "", "in_bin_since": None, "in_bin_until": None}
    return await _set(connection, repository, values)


async def _set(connection: AsyncConnection, repository: Repository, values: Mapping[str, object]) -> Repository:
    statement = update(Repository).where(col(Repository.id) == repository.id).values(**values)
    return Repository(**(await connection.execute(statement.returning(*_REPOSITORY))).mappings().one())


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
    columns = {column.name: _REPOSITORY[column.name] for column in _REMOVED}
    statement = (
        delete(Repository)
        .where(col(Repository.id) == repository.id)
        .returning(*{**columns, "name": literal(own_name(repository)).label("name")}.values())
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
