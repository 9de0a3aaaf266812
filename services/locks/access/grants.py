"""Grants: the roles of users in repositories."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.access import policy
from services.locks.models import Grant, Repository, User

_BY_ROLE = case({role.value: rank for rank, role in enumerate(policy.Role)}, value=col(Grant.role))


@dataclass(frozen=True, slots=True)
class FoundRepository:
    """A repository's id, the input of the decision about the user's access, and the records of the user's grants."""

    id: int
    access: policy.RepositoryAccess
    records: Sequence[Grant]


async def find_access(connection: AsyncConnection, *, repository: str, user_id: int) -> FoundRepository | None:
    """Return the input of the decision about a user's access to a repository; None if the repository does not exist."""
    statement = (
        select(col(Repository.id), col(Repository.public), *Grant.__table__.c)
        .join_from(
            Repository,
            Grant,
            (col(Grant.repository_id) == col(Repository.id)) & (col(Grant.user_id) == user_id),
            isouter=True,
        )
        .where(col(Repository.name) == repository)
        .order_by(_BY_ROLE)
    )
    rows = (await connection.execute(statement)).all()
    if not rows:
        return None
    repository_id, public, *_ = rows[0]
    records = [_record(grant) for _, _, *grant in rows if grant[0] is not None]
    grants = [policy.Grant(policy.Role(record.role), tuple(record.ref_patterns)) for record in records]
    return FoundRepository(repository_id, policy.RepositoryAccess(public, grants), records)


def _record(values: Sequence[Any]) -> Grant:
    return Grant(**dict(zip(Grant.__table__.c.keys(), values, strict=True)))


async def put_grant(
    connection: AsyncConnection,
    *,
    user_id: int,
    repository_id: int,
    role: policy.Role,
    ref_patterns: list[str],
    ignores_locks: bool,
) -> tuple[Grant, Grant | None]:
    """Give a user a role in a repository, replacing an earlier grant of that role; return both grants."""
    earlier = select(*Grant.__table__.c).where(
        col(Grant.user_id) == user_id, col(Grant.repository_id) == repository_id, col(Grant.role) == role.value
    )
    replaced = (await connection.execute(earlier.with_for_update())).mappings().one_or_none()
    values = {"ref_patterns": ref_patterns, "created_at": func.now(), "ignores_locks": ignores_locks}
    statement = (
        insert(Grant)
        .values(user_id=user_id, repository_id=repository_id, role=role.value, **values)
        .on_conflict_do_update(index_elements=["user_id", "repository_id", "role"], set_=values)
        .returning(*Grant.__table__.c)
    )
    grant = Grant(**(await connection.execute(statement)).mappings().one())
    return grant, None if replaced is None else Grant(**replaced)


async def delete_grants(connection: AsyncConnection, *, user_id: int, repository_id: int) -> Sequence[Grant]:
    """Delete all of a user's grants in a repository and return them."""
    statement = (
        delete(Grant)
        .where(col(Grant.user_id) == user_id, col(Grant.repository_id) == repository_id)
        .returning(*Grant.__table__.c)
    )
    return [Grant(**row) for row in (await connection.execute(statement)).mappings()]


async def list_grants(connection: AsyncConnection, repository_id: int) -> Sequence[tuple[str, Grant]]:
    """Return a repository's grants, each with its user's name, ordered by that name and by role."""
    statement = (
        select(col(User.name), *Grant.__table__.c)
        .join_from(Grant, User, col(Grant.user_id) == col(User.id))
        .where(col(Grant.repository_id) == repository_id)
        .order_by(col(User.name), _BY_ROLE)
    )
    return [(user_name, _record(grant)) for user_name, *grant in (await connection.execute(statement)).all()]
