"""The user, the groups and the grants that a verified JSON Web Token has."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.issuers.claims import matches, ref_in
from services.locks.issuers.refusal import refused
from services.locks.issuers.verification import groups_in
from services.locks.models import Issuer, IssuerGrant, IssuerGroup

_SUBJECT_CHARACTERS = 255
_PROGRAM = "claims:"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._]+", re.ASCII)


class Rights(NamedTuple):
    """The identity of a token's user, its groups, and the grants of the issuer, each with its ref or an empty text."""

    subject: str
    login: str
    group_ids: Sequence[int] = ()
    grants: Sequence[tuple[int, str]] = ()


async def find_rights(connection: AsyncConnection, issuer: Issuer, claims: Mapping[str, Any]) -> Rights:
    """Return the rights of a verified token. Raises `Unauthenticated` if it is neither a program's nor a person's.

    A token whose claims match grants is a program's; the patterns of the oldest of these grants are its identity, so
    that all tokens of one program, whatever their ref, are one user.
    """
    statement = select(*IssuerGrant.__table__.c).where(col(IssuerGrant.issuer_id) == issuer.id)
    rows = (await connection.execute(statement.order_by(col(IssuerGrant.id)))).mappings()
    grants = [grant for row in rows if matches((grant := IssuerGrant(**row)).claims, claims)]
    if grants:
        refs = [(grant.id, ref_in(claims, grant.ref_claim) if grant.ref_claim else "") for grant in grants]
        patterns = grants[0].claims
        return Rights(_PROGRAM + json.dumps(patterns, sort_keys=True), _program_name(issuer.name, patterns), (), refs)
    if not issuer.user_claim:
        raise refused(f"no grant of the issuer {issuer.name} matches the claims of the JSON Web Token")
    subject = _text(claims, "sub")
    if subject.startswith(_PROGRAM):
        raise refused("sub: expected the subject of a person")
    login = _text(claims, issuer.user_claim)
    return Rights(subject, login, await _group_ids(connection, issuer, claims))


def _text(claims: Mapping[str, Any], claim: str) -> str:
    value = claims.get(claim)
    if not isinstance(value, str) or not 0 < len(value) <= _SUBJECT_CHARACTERS or "\0" in value:
        raise refused(f"{claim}: expected a text of 1 to {_SUBJECT_CHARACTERS} characters in the JSON Web Token")
    return value


def _program_name(issuer: str, patterns: Mapping[str, str]) -> str:
    """Return the name of the user of a program, such as `ci-github-acme-film`."""
    values = (pattern for _, pattern in sorted(patterns.items()))
    return _NOT_IN_NAMES.sub("-", "-".join(("ci", issuer, *values))).strip("-")[:64].rstrip("-")


async def _group_ids(connection: AsyncConnection, issuer: Issuer, claims: Mapping[str, Any]) -> Sequence[int]:
    values = groups_in(claims, issuer.groups_claim)
    statement = (
        select(col(IssuerGroup.group_id))
        .distinct()
        .where(col(IssuerGroup.issuer_id) == issuer.id, col(IssuerGroup.value).in_(values))
    )
    return list(await connection.scalars(statement)) if values else []
