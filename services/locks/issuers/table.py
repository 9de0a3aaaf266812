"""Issuers, their grants, and the groups that values of their claims mean."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, Reason
from services.locks.access.policy import Role
from services.locks.issuers.claims import check_claims
from services.locks.issuers.validation import NewIssuer, check_claim_name, check_value
from services.locks.models import Group, Issuer, IssuerGrant, IssuerGroup, Repository, Token, TokenGroup
from services.locks.repositories import find_repository

_ISSUER = Issuer.__table__.c
_GRANT = IssuerGrant.__table__.c


class GrantInRepository(NamedTuple):
    """A grant of an issuer, and the name of its repository."""

    grant: IssuerGrant
    repository: str


class IssuerWithRules(NamedTuple):
    """An issuer, the values with their groups by value, and the grants by id."""

    issuer: Issuer
    groups: Sequence[tuple[str, str]] = ()
    grants: Sequence[GrantInRepository] = ()


async def create_issuer(connection: AsyncConnection, new: NewIssuer) -> Issuer:
    """Add an issuer. Raises `AlreadyExists` (ISSUER_EXISTS) if another one has its name or its URL."""
    values = {**new._asdict(), "audiences": list(new.audiences)}
    statement = insert(Issuer).values(**values).on_conflict_do_nothing().returning(*_ISSUER)
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is not None:
        return Issuer(**row)
    taken = select(*_ISSUER).where((col(Issuer.name) == new.name) | (col(Issuer.url) == new.url))
    for other in (await connection.execute(taken)).mappings():
        # A repeated transaction finds the issuer that its first attempt has added.
        if all(other[name] == value for name, value in values.items()):
            return Issuer(**other)
    raise AlreadyExists(Reason.ISSUER_EXISTS, f"name: there is an issuer {new.name}, or one with this URL, already")


async def find_issuer(connection: AsyncConnection, name: str, *, hold: bool = False) -> Issuer:
    """Return the issuer of that name. Raises `NotFound` (ISSUER_NOT_FOUND).

    With `hold`, the rules of the issuer are about to change: no token gets what they give before this transaction ends.
    """
    statement = select(*_ISSUER).where(col(Issuer.name) == name)
    if hold:
        statement = statement.with_for_update()
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is None:
        raise NotFound(Reason.ISSUER_NOT_FOUND, f"there is no issuer {name}")
    return Issuer(**row)


async def find_by_url(connection: AsyncConnection, url: str) -> Issuer | None:
    """Return the issuer with exactly this URL, or None."""
    row = (await connection.execute(select(*_ISSUER).where(col(Issuer.url) == url))).mappings().one_or_none()
    return None if row is None else Issuer(**row)


async def list_issuers(connection: AsyncConnection) -> Sequence[IssuerWithRules]:
    """Return all issuers by name."""
    issuers = (await connection.execute(select(*_ISSUER).order_by(col(Issuer.name)))).mappings()
    return [await _with_rules(connection, Issuer(**row)) for row in issuers.all()]


async def list_sign_ins(connection: AsyncConnection) -> Sequence[Issuer]:
    """Return the issuers at which people can sign in, by name."""
    statement = select(*_ISSUER).where(col(Issuer.client_id) != "", col(Issuer.user_claim) != "")
    return [Issuer(**row) for row in (await connection.execute(statement.order_by(col(Issuer.name)))).mappings()]


async def find_for_sign_in(connection: AsyncConnection, name: str) -> Issuer:
    """Return the issuer of that name. Raises `NotFound` (ISSUER_NOT_FOUND), also if nobody can sign in there."""
    issuer = await find_issuer(connection, name)
    if not (issuer.client_id and issuer.user_claim):
        raise NotFound(Reason.ISSUER_NOT_FOUND, f"nobody can sign in at the issuer {name}")
    return issuer


async def delete_issuer(connection: AsyncConnection, name: str) -> IssuerWithRules:
    """Delete an issuer with its tokens and identities, and return it. Raises `NotFound` (ISSUER_NOT_FOUND)."""
    found = await _with_rules(connection, await find_issuer(connection, name, hold=True))
    await connection.execute(delete(Issuer).where(col(Issuer.id) == found.issuer.id))
    return found


async def _with_rules(connection: AsyncConnection, issuer: Issuer) -> IssuerWithRules:
    groups = (
        select(col(IssuerGroup.value), col(Group.name))
        .join_from(IssuerGroup, Group, col(Group.id) == col(IssuerGroup.group_id))
        .where(col(IssuerGroup.issuer_id) == issuer.id)
        .order_by(col(IssuerGroup.value), col(Group.name))
    )
    grants = (
        select(col(Repository.name), *_GRANT)
        .join_from(IssuerGrant, Repository, col(Repository.id) == col(IssuerGrant.repository_id))
        .where(col(IssuerGrant.issuer_id) == issuer.id)
        .order_by(col(IssuerGrant.id))
    )
    mapped = [(value, group) for value, group in await connection.execute(groups)]
    rows = await connection.execute(grants)
    granted = [GrantInRepository(_grant(values), repository) for repository, *values in rows]
    return IssuerWithRules(issuer, mapped, granted)


def _grant(values: Sequence[Any]) -> IssuerGrant:
    return IssuerGrant(**dict(zip(_GRANT.keys(), values, strict=True)))


async def map_group(connection: AsyncConnection, *, issuer: str, value: str, group: str) -> None:
    """Let a value of the issuer's claim of groups mean a group. Raises `InvalidArgument` and `NotFound`."""
    found = await find_issuer(connection, issuer, hold=True)
    if not found.groups_claim:
        raise InvalidArgument(Reason.INVALID_FIELD, f"issuer: {issuer} has no claim of groups (groups_claim)")
    values = {"issuer_id": found.id, "value": check_value(value), "group_id": await _group_id(connection, group)}
    await connection.execute(insert(IssuerGroup).values(**values).on_conflict_do_nothing())


async def unmap_group(connection: AsyncConnection, *, issuer: str, value: str, group: str) -> None:
    """Let a value mean a group no more, and take the group from the known tokens of the issuer. Raises `NotFound`."""
    found = await find_issuer(connection, issuer, hold=True)
    group_id = await _group_id(connection, group)
    mapping = delete(IssuerGroup).where(
        col(IssuerGroup.issuer_id) == found.id, col(IssuerGroup.value) == value, col(IssuerGroup.group_id) == group_id
    )
    if not (await connection.execute(mapping)).rowcount:
        raise NotFound(Reason.MAPPING_NOT_FOUND, f"the value {value} of {issuer} does not mean {group}")
    tokens = select(col(Token.id)).where(col(Token.issuer_id) == found.id)
    await connection.execute(
        delete(TokenGroup).where(col(TokenGroup.group_id) == group_id, col(TokenGroup.token_id).in_(tokens))
    )


async def _group_id(connection: AsyncConnection, name: str) -> int:
    found: int | None = await connection.scalar(select(col(Group.id)).where(col(Group.name) == name))
    if found is None:
        raise NotFound(Reason.GROUP_NOT_FOUND, f"there is no group {name}")
    return found


async def add_grant(
    connection: AsyncConnection, *, issuer: str, repository: str, role: Role, claims: Mapping[str, str], ref_claim: str
) -> GrantInRepository:
    """Give a role to every token whose claims match. Raises `InvalidArgument` and `NotFound`."""
    found = await find_issuer(connection, issuer, hold=True)
    values = {
        "issuer_id": found.id,
        "repository_id": (await find_repository(connection, repository)).id,
        "role": role.value,
        "claims": check_claims(claims, issuer_url=found.url),
        "ref_claim": check_claim_name("ref_claim", ref_claim),
    }
    same = select(*_GRANT).where(*(_GRANT[name] == value for name, value in values.items()))
    row = (await connection.execute(same.limit(1))).mappings().one_or_none()
    if row is None:
        row = (await connection.execute(insert(IssuerGrant).values(**values).returning(*_GRANT))).mappings().one()
    return GrantInRepository(IssuerGrant(**row), repository)


async def delete_grants(
    connection: AsyncConnection, *, issuer: str, repository: str, grant_id: int
) -> Sequence[GrantInRepository]:
    """Delete one grant of an issuer in a repository, or with the id 0 all of them, and return them by id.

    Raises `NotFound`, also (GRANT_NOT_FOUND) if there is none.
    """
    found = await find_issuer(connection, issuer, hold=True)
    repository_id = (await find_repository(connection, repository)).id
    statement = delete(IssuerGrant).where(
        col(IssuerGrant.issuer_id) == found.id, col(IssuerGrant.repository_id) == repository_id
    )
    if grant_id:
        statement = statement.where(col(IssuerGrant.id) == grant_id)
    rows = (await connection.execute(statement.returning(*_GRANT))).mappings().all()
    if not rows:
        raise NotFound(Reason.GRANT_NOT_FOUND, f"{issuer} has no such grant in {repository}")
    grants = sorted((IssuerGrant(**row) for row in rows), key=lambda grant: grant.id)
    return [GrantInRepository(grant, repository) for grant in grants]
