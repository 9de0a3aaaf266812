"""Grants: the roles of users in repositories.

`ACCESS_GRANTS` is the view of all that count: the grants of a user, those of its groups, and those of single tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, ScalarSelect, Select, and_, case, column, delete, func, select, table
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.access import policy
from services.locks.models import Grant, Group, GroupGrant, Repository, User
from services.locks.repository_names import id_of

_RANKS = {role.value: rank for rank, role in enumerate(policy.Role)}

AnyGrant = Grant | GroupGrant

ACCESS_GRANTS = table(
    "access_grants",
    *map(column, ("source", "source_name", "user_id", "token_id", "repository_id")),
    *map(column, ("role", "ref_patterns", "ignores_locks", "created_at")),
)
_ACCESS = ACCESS_GRANTS.c


@dataclass(frozen=True, slots=True)
class AccessGrant:
    """A grant that counts for a user.

    `source` is `user`, or the kind of its source: `group`, `forge` or `issuer`, with that one's name.
    """

    source: str
    source_name: str
    role: str
    ref_patterns: Sequence[str]
    ignores_locks: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FoundRepository:
    """A repository's id, the input of the decision about the user's access, and the records of the user's grants."""

    id: int
    access: policy.RepositoryAccess
    records: Sequence[AccessGrant]


def granted(repository_id: int | ScalarSelect[int], *, user_id: int, token_id: int = 0) -> ColumnElement[bool]:
    """Return the condition for the rows of `ACCESS_GRANTS` that count for a user who presents this token."""
    return and_(_ACCESS.repository_id == repository_id, _ACCESS.user_id == user_id, _ACCESS.token_id.in_({0, token_id}))


def granted_to(*, user_id: int, token_id: int, repository_id: int | None = None) -> Select[tuple[int, str, list[str]]]:
    """Return the statement for the grants that count for a user who presents this token, in one repository or all."""
    statement = select(_ACCESS.repository_id, _ACCESS.role, _ACCESS.ref_patterns).where(
        _ACCESS.user_id == user_id, _ACCESS.token_id.in_({0, token_id})
    )
    return statement if repository_id is None else statement.where(_ACCESS.repository_id == repository_id)


async def find_access(
    connection: AsyncConnection, *, repository: str, user_id: int, token_id: int = 0
) -> FoundRepository | None:
    """Return the input of the decision about a user's access to a repository; None if the repository does not exist.

    `repository` may also be an earlier name of it.
    """
    columns = [_ACCESS[name] for name in AccessGrant.__dataclass_fields__]
    # A subquery, because Postgres does not take the condition of a join into the view.
    repository_id = id_of(repository)
    statement = (
        select(col(Repository.id), col(Repository.public), col(Repository.archived_at), *columns)
        .join_from(Repository, ACCESS_GRANTS, granted(repository_id, user_id=user_id, token_id=token_id), isouter=True)
        .where(col(Repository.id) == repository_id)
        .order_by(case(_RANKS, value=_ACCESS.role), _ACCESS.source.desc(), _ACCESS.source_name)
    )
    rows = (await connection.execute(statement)).all()
    if not rows:
        return None
    found_id, public, archived_at, *_ = rows[0]
    records = [AccessGrant(*grant) for _, _, _, *grant in rows if grant[0] is not None]
    grants = [
        policy.Grant(
            policy.Role(record.role),
            tuple(record.ref_patterns),
            f"{record.source} {record.source_name}" if record.source_name else "",
        )
        for record in records
    ]
    access = policy.RepositoryAccess(public, grants, archived=archived_at is not None)
    return FoundRepository(found_id, access, records)


async def put_grant(
    connection: AsyncConnection,
    *,
    party: User | Group,
    repository_id: int,
    role: policy.Role,
    ref_patterns: list[str],
    ignores_locks: bool,
) -> tuple[AnyGrant, AnyGrant | None]:
    """Give a user or a group a role in a repository, replacing an earlier grant of that role; return both grants."""
    model, party_column = _model_of(party)
    columns = model.__table__.c
    key = {party_column: party.id, "repository_id": repository_id, "role": role.value}
    earlier = select(*columns).where(*(columns[name] == value for name, value in key.items()))
    replaced = (await connection.execute(earlier.with_for_update())).mappings().one_or_none()
    values = {"ref_patterns": ref_patterns, "created_at": func.now(), "ignores_locks": ignores_locks}
    statement = (
        insert(model)
        .values(**key, **values)
        .on_conflict_do_update(index_elements=[*key], set_=values)
        .returning(*columns)
    )
    grant = model(**(await connection.execute(statement)).mappings().one())
    return grant, None if replaced is None else model(**replaced)


async def delete_grants(connection: AsyncConnection, *, party: User | Group, repository_id: int) -> Sequence[AnyGrant]:
    """Delete all grants of a user or a group in a repository and return them."""
    model, party_column = _model_of(party)
    columns = model.__table__.c
    statement = (
        delete(model)
        .where(columns[party_column] == party.id, columns.repository_id == repository_id)
        .returning(*columns)
    )
    return [model(**row) for row in (await connection.execute(statement)).mappings()]


async def list_grants(connection: AsyncConnection, repository_id: int) -> Sequence[tuple[str, AnyGrant]]:
    """Return a repository's grants, each with the name of its user or group, ordered by that name and by role.

    Those of users are before those of groups.
    """
    found: list[tuple[str, AnyGrant]] = []
    parties: Sequence[tuple[type[AnyGrant], type[User | Group], str]]
    parties = ((Grant, User, "user_id"), (GroupGrant, Group, "group_id"))
    for model, party, party_column in parties:
        columns, named = model.__table__.c, party.__table__.c
        statement = (
            select(named.name, *columns)
            .join_from(model, party, columns[party_column] == named.id)
            .where(columns.repository_id == repository_id)
            .order_by(named.name, case(_RANKS, value=columns.role))
        )
        for name, *values in (await connection.execute(statement)).all():
            found.append((name, model(**dict(zip(columns.keys(), values, strict=True)))))
    return found


def _model_of(party: User | Group) -> tuple[type[AnyGrant], str]:
    """Return the model of the grants of a user or a group, and its column with the id of that one."""
    return (Grant, "user_id") if isinstance(party, User) else (GroupGrant, "group_id")
