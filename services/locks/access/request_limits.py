"""Limits of requests: those of users, groups and tokens, in requests per hour.

A user's own limit goes before those of its groups, of which the highest counts, and those before the default. A token
may have a limit beside that of its user. 0 stands for no limit, NULL for none of its own.
"""

from typing import NamedTuple

from sqlalchemy import ColumnElement, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import NotFound, Reason
from services.common.request_rate import UNLIMITED
from services.locks.access.groups import count_members, find_group
from services.locks.models import Group, Token, User

# The highest limit of the groups of a user who presents a token, beside a row of `tokens` and one of `users`.
_OF_GROUPS: ColumnElement[int | None] = literal_column(f"""(
    SELECT CASE WHEN bool_or(requests_per_hour = {UNLIMITED}) THEN {UNLIMITED} ELSE max(requests_per_hour) END
    FROM groups WHERE requests_per_hour IS NOT NULL AND id IN (
        SELECT group_id FROM group_members WHERE group_members.user_id = users.id
        UNION ALL SELECT group_id FROM token_groups WHERE token_groups.token_id = tokens.id
    )
)""")  # noqa: S608 - our own words

LIMITS = (col(User.requests_per_hour), _OF_GROUPS, col(Token.requests_per_hour))
"""The limits of a user, of the user's groups and of a token, for a statement that joins both."""


class Limits(NamedTuple):
    """The limits of the requests of a user, and of those with one token; 0 for none."""

    of_user: int
    of_token: int


def limits_of(own: int | None, of_groups: int | None, of_token: int | None, *, default: int) -> Limits:
    """Return the limits that count, of the values of `LIMITS`."""
    of_user = next((limit for limit in (own, of_groups) if limit is not None), default)
    return Limits(of_user, of_token or UNLIMITED)


async def find_limits(connection: AsyncConnection, *, token_id: int, default: int) -> Limits:
    """Return the limits of requests with a token; none if there is no such token."""
    statement = (
        select(*LIMITS).join_from(Token, User, col(Token.user_id) == col(User.id)).where(col(Token.id) == token_id)
    )
    row = (await connection.execute(statement)).one_or_none()
    return Limits(UNLIMITED, UNLIMITED) if row is None else limits_of(*row, default=default)


async def set_limit_of_user(connection: AsyncConnection, name: str, limit: int | None) -> User:
    """Give a user an own limit, or none, and return the user. Raises `NotFound` (USER_NOT_FOUND)."""
    statement = update(User).where(col(User.name) == name).values(requests_per_hour=limit)
    row = (await connection.execute(statement.returning(*User.__table__.c))).mappings().one_or_none()
    if row is None:
        raise NotFound(Reason.USER_NOT_FOUND, f"there is no user {name}")
    return User(**row)


async def set_limit_of_token(connection: AsyncConnection, user: User, name: str, limit: int | None) -> Token:
    """Give a user's token an own limit, or none, and return it. Raises `NotFound` (TOKEN_NOT_FOUND)."""
    which = (col(Token.user_id) == user.id) & (col(Token.name) == name)
    statement = update(Token).where(which).values(requests_per_hour=limit)
    row = (await connection.execute(statement.returning(*Token.__table__.c))).mappings().one_or_none()
    if row is None:
        raise NotFound(Reason.TOKEN_NOT_FOUND, f"{user.name} has no token {name}")
    return Token(**row)


async def set_limit_of_group(connection: AsyncConnection, name: str, limit: int | None) -> tuple[Group, int]:
    """Give the members of a group a limit, or none; return the group and the number of its members.

    Raises `NotFound` (GROUP_NOT_FOUND).
    """
    group = await find_group(connection, name, hold=True)
    statement = update(Group).where(col(Group.id) == group.id).values(requests_per_hour=limit)
    row = (await connection.execute(statement.returning(*Group.__table__.c))).mappings().one()
    return Group(**row), await count_members(connection, group.id)
