"""Users."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import AlreadyExists, NotFound, Reason
from services.locks.look_alikes import already_exists_message, find_look_alike
from services.locks.models import User

_USER = User.__table__.c


async def create_user(connection: AsyncConnection, name: str, *, administrator: bool, limit: int | None = None) -> User:
    """Add a user. Raises `AlreadyExists` (USER_EXISTS), also if an existing name differs only in case."""
    if found := await find_look_alike(connection, col(User.name), name):
        raise AlreadyExists(Reason.USER_EXISTS, f"name: {already_exists_message('user', name, found)}")
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
