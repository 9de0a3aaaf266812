"""Forges in the database, and the repositories that are tied to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import AlreadyExists, FailedPrecondition, NotFound, Reason
from services.database.engine import violated
from services.locks.forges.patterns import matches_any
from services.locks.models import Forge, Repository
from services.locks.repository_names import id_of, is_in_bin

_FORGE = Forge.__table__.c


@dataclass(frozen=True, slots=True)
class Tied:
    """A repository that is tied to one at a forge; its id is None if the repository does not exist yet."""

    forge: Forge
    name: str
    forge_repository: str
    repository_id: int | None = None
    public: bool = False
    restricted: bool = False


async def create_forge(
    connection: AsyncConnection, name: str, *, kind: str, api_url: str, repositories: list[str], creates_on_use: bool
) -> Forge:
    """Add a forge. Raises `AlreadyExists` (FORGE_EXISTS)."""
    statement = (
        insert(Forge)
        .values(name=name, kind=kind, api_url=api_url, repositories=repositories, creates_on_use=creates_on_use)
        .on_conflict_do_nothing(index_elements=["name"])
        .returning(*_FORGE)
    )
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is None:
        raise AlreadyExists(Reason.FORGE_EXISTS, f"name: there is a forge {name} already")
    return Forge(**row)


async def list_forges(connection: AsyncConnection) -> Sequence[Forge]:
    """Return all forges, ordered by name."""
    rows = (await connection.execute(select(*_FORGE).order_by(col(Forge.name)))).mappings()
    return [Forge(**row) for row in rows]


async def find_forge(connection: AsyncConnection, name: str) -> Forge:
    """Return the forge of that name. Raises `NotFound` (FORGE_NOT_FOUND)."""
    row = (await connection.execute(select(*_FORGE).where(col(Forge.name) == name))).mappings().one_or_none()
    if row is None:
        raise NotFound(Reason.FORGE_NOT_FOUND, f"there is no forge {name}")
    return Forge(**row)


async def delete_forge(connection: AsyncConnection, name: str) -> Forge:
    """Remove a forge with its tokens. Raises `NotFound` (FORGE_NOT_FOUND), `FailedPrecondition` (FORGE_IN_USE)."""
    forge = await find_forge(connection, name)
    try:
        await connection.execute(delete(Forge).where(col(Forge.id) == forge.id))
    except IntegrityError as error:
        if violated(error) != "fk_repositories_forge_id":
            raise
        raise FailedPrecondition(
            Reason.FORGE_IN_USE, f"repositories are tied to the forge {name}; untie or purge them first"
        ) from error
    return forge


async def forge_names(connection: AsyncConnection) -> Mapping[int, str]:
    """Return the names of all forges by their ids."""
    rows = await connection.execute(select(col(Forge.id), col(Forge.name)))
    return {row.id: row.name for row in rows}


async def find_tied(connection: AsyncConnection, repository: str) -> Tied | None:
    """Return the repository of that name, or of that earlier name, with its forge; None if it is tied to none.

    A repository that does not exist is found if it is to be made on its first use: it has no id then. The name of a
    repository in the bin is left to it.
    """
    statement = (
        select(
            col(Repository.id),
            col(Repository.public),
            col(Repository.restricted),
            col(Repository.forge_repository),
            *_FORGE,
        )
        .join_from(Repository, Forge, col(Repository.forge_id) == col(Forge.id), isouter=True)
        .where(col(Repository.id) == id_of(repository))
    )
    row: Sequence[Any] | None = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None if await is_in_bin(connection, repository) else await _find_creating(connection, repository)
    repository_id, public, restricted, forge_repository, *values = row
    if values[0] is None:
        return None
    return Tied(_forge(values), repository, forge_repository, repository_id, public, restricted)


async def _find_creating(connection: AsyncConnection, repository: str) -> Tied | None:
    statement = select(*_FORGE).where(col(Forge.creates_on_use)).order_by(col(Forge.name))
    forges = [_forge(values) for values in await connection.execute(statement)]
    found = next((forge for forge in forges if matches_any(forge.repositories, repository)), None)
    return Tied(found, repository, repository) if found is not None else None


def _forge(values: Sequence[Any]) -> Forge:
    return Forge(**dict(zip(_FORGE.keys(), values, strict=True)))
