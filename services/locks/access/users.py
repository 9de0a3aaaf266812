"""Users."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, Reason
from services.locks.look_alikes import already_exists_message, find_look_alike
from services.locks.models import User

_USER = User.__table__.c
_ORIGINS = text("""
    SELECT identities.user_id, coalesce('forge ' || forges.name, 'issuer ' || issuers.name) AS origin
    FROM identities
    LEFT JOIN forges ON forges.id = identities.forge_id
    LEFT JOIN issuers ON issuers.id = identities.issuer_id
    WHERE identities.user_id = ANY(CAST(:ids AS bigint[]))
""")


async def create_user(connection: AsyncConnection, name: str, *, administrator: bool, limit: int | None = None) -> User:
    """Add a user. Raises `AlreadyExists` (USER_EXISTS), also if an existing name differs only in case."""
    if found := await find_look_alike(connection, col(User.name), name):
        message = already_exists_message("user", name, found)
        user = await find_user(connection, found)
        if origin := (await find_origins(connection, [user.id])).get(user.id):
            message += f"; it has come by the {origin}, and may be anybody there"
        raise AlreadyExists(Reason.USER_EXISTS, f"name: {message}")
    statement = (
        insert(User)
        .values(name=name, administrator=administrator, requests_per_hour=limit)
        .on_conflict_do_nothing(index_elements=["name"])
        .returning(*_USER)
    )
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is None:
        raise AlreadyExists(Reason.USER_EXISTS, f"name: {already_exists_message('user', name, name)}")
    return User(**row)


async def find_user(connection: AsyncConnection, name: str, *, hold: bool = False) -> User:
    """Return the user of that name. Raises `NotFound` (USER_NOT_FOUND).

    With `hold`, no other transaction can change the user, or give it a token, a grant or a lock, before this one ends.
    """
    statement = select(*_USER).where(col(User.name) == name)
    if hold:
        statement = statement.with_for_update()
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is None:
        raise NotFound(Reason.USER_NOT_FOUND, f"there is no user {name}")
    return User(**row)


async def list_users(connection: AsyncConnection, *, after: str, limit: int | None) -> Sequence[User]:
    """Return at most `limit` users, or all, whose names are after `after`, ordered by name."""
    statement = select(*_USER).where(col(User.name) > after).order_by(col(User.name)).limit(limit)
    return [User(**row) for row in (await connection.execute(statement)).mappings()]


async def find_origins(connection: AsyncConnection, user_ids: Sequence[int]) -> Mapping[int, str]:
    """Return where users have come from by themselves, such as `issuer sso` or `forge github`, by their ids.

    Users that an administrator has added are left out.
    """
    rows = await connection.execute(_ORIGINS, {"ids": list(user_ids)})
    return {row.user_id: row.origin for row in rows}


async def check_origin(connection: AsyncConnection, users: Sequence[User], origin: str) -> None:
    """Raise `InvalidArgument` unless all users have come from `origin`; it is empty for those that were added here.

    Who comes by a forge or an issuer has chosen its name there, which may be that of somebody whom the caller means.
    """
    origins = await find_origins(connection, [user.id for user in users])
    for user in users:
        if (found := origins.get(user.id, "")) == origin:
            continue
        if not found:
            message = f"expected none, because an administrator has added the user {user.name}"
        else:
            message = (
                f"expected '{found}' (--from '{found}'): {user.name} has come by it, with a name of its own choice"
            )
        raise InvalidArgument(Reason.INVALID_FIELD, f"origin: {message}")
