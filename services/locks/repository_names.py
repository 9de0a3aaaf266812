"""Names of repositories: an earlier name leads clients to a repository for a while, until another one takes it.

A repository in the bin has a name of its row that is no name of a repository, so that nobody reaches it, and its own
name is free.
"""

from datetime import timedelta

from sqlalchemy import ScalarSelect, delete, exists, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.models import Repository, RepositoryAlias


def id_of(name: str) -> ScalarSelect[int]:
    """Return the expression for the id of the repository of that name or, if there is none, of that earlier name."""
    named = select(col(Repository.id)).where(col(Repository.name) == name).scalar_subquery()
    earlier = (
        select(col(Repository.id))
        .join(RepositoryAlias, col(RepositoryAlias.repository_id) == col(Repository.id))
        .where(
            col(RepositoryAlias.name) == name,
            col(RepositoryAlias.valid_until) > func.now(),
            col(Repository.in_bin_since).is_(None),
        )
        .scalar_subquery()
    )
    return select(func.coalesce(named, earlier)).scalar_subquery()


def own_name(repository: Repository) -> str:
    """Return the name of a repository, also of one in the bin."""
    return repository.removed_name or repository.name


def name_in_bin(repository: Repository) -> str:
    """Return the name of the row of a repository in the bin; no client can ask for a name with a colon."""
    return f"{repository.name}:{repository.id}"


async def is_in_bin(connection: AsyncConnection, name: str) -> bool:
    """Return whether a repository of that name is in the bin."""
    in_bin = exists().where(col(Repository.removed_name) == name, col(Repository.in_bin_since).is_not(None))
    return bool(await connection.scalar(select(in_bin)))


async def take_name(connection: AsyncConnection, name: str) -> None:
    """Let no other repository be found by a name that one gets now."""
    which = col(RepositoryAlias.name) == name
    # Facades forget what they know at each deletion, also at one of nothing.
    if await connection.scalar(select(exists().where(which))):
        await connection.execute(delete(RepositoryAlias).where(which))


async def keep_earlier_name(connection: AsyncConnection, repository_id: int, name: str, *, days: int) -> None:
    """Let a repository be found by the name that it had, for so many days."""
    valid_until = func.now() + timedelta(days=days)
    await connection.execute(
        insert(RepositoryAlias)
        .values(name=name, repository_id=repository_id, valid_until=valid_until)
        .on_conflict_do_update(
            index_elements=["name"], set_={"repository_id": repository_id, "valid_until": valid_until}
        )
    )


async def forget_expired(connection: AsyncConnection) -> None:
    """Delete the earlier names whose time is over."""
    expired = col(RepositoryAlias.valid_until) < func.now()
    if await connection.scalar(select(exists().where(expired))):
        await connection.execute(delete(RepositoryAlias).where(expired))
