"""Users and their tokens."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from sqlalchemy import delete, extract, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import AlreadyExists, NotFound, Reason
from services.locks.access import revoked_tokens
from services.locks.look_alikes import already_exists_message, find_look_alike
from services.locks.models import Token, TokenUse, User

_USER = User.__table__.c
_TOKEN = Token.__table__.c
_VALID_SECONDS = extract("epoch", col(Token.expires_at) - func.now())


@dataclass(frozen=True, slots=True)
class TokenUser:
    """A token's user, and the seconds before the token expires: infinite without an expiry, 0 or less after it."""

    token_id: int
    user: User
    valid_seconds: float


async def create_user(connection: AsyncConnection, name: str, *, administrator: bool) -> User:
    """Add a user. Raises `AlreadyExists` (USER_EXISTS), also if an existing name differs only in case."""
    if found := await find_look_alike(connection, col(User.name), name):
        raise AlreadyExists(Reason.USER_EXISTS, f"name: {already_exists_message('user', name, found)}")
    statement = (
        insert(User)
        .values(name=name, administrator=administrator)
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


async def list_users(connection: AsyncConnection) -> Sequence[User]:
    """Return all users, ordered by name."""
    rows = (await connection.execute(select(*_USER).order_by(col(User.name)))).mappings()
    return [User(**row) for row in rows]


async def find_token_user(connection: AsyncConnection, token_hash: bytes) -> TokenUser | None:
    """Return the user of a token, even if the token has expired; None if the token does not exist."""
    statement = (
        select(col(Token.id), _VALID_SECONDS, *_USER)
        .join_from(Token, User, col(Token.user_id) == col(User.id))
        .where(col(Token.token_hash) == token_hash)
    )
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    token_id, seconds, *values = row
    user = User(**dict(zip(_USER.keys(), values, strict=True)))
    return TokenUser(token_id, user, _seconds(seconds))


async def valid_seconds(connection: AsyncConnection, *, token_id: int, user_id: int) -> float:
    """Return the seconds before a user's token expires, as in `TokenUser`; 0 if the user has no such token."""
    statement = select(_VALID_SECONDS).where(col(Token.id) == token_id, col(Token.user_id) == user_id)
    row = (await connection.execute(statement)).one_or_none()
    return _seconds(row[0]) if row is not None else 0.0


def _seconds(left: Decimal | float | None) -> float:
    """Return the seconds before an expiry as a float; infinite without an expiry."""
    return math.inf if left is None else float(left)


async def create_token(
    connection: AsyncConnection, *, user_id: int, name: str, token_hash: bytes, expires_at: datetime | None
) -> Token:
    """Add a token. Raises `AlreadyExists` (TOKEN_EXISTS) if the name is taken by a token with another hash."""
    statement = (
        insert(Token)
        .values(user_id=user_id, name=name, token_hash=token_hash, expires_at=expires_at)
        .on_conflict_do_nothing(index_elements=["user_id", "name"])
    )
    await connection.execute(statement)
    found = select(*_TOKEN).where(col(Token.user_id) == user_id, col(Token.name) == name)
    row = (await connection.execute(found)).mappings().one_or_none()
    if row is None or row["token_hash"] != token_hash:
        raise AlreadyExists(Reason.TOKEN_EXISTS, f"name: the user has a token {name} already")
    return Token(**row)


async def list_tokens(connection: AsyncConnection, user_id: int) -> Sequence[tuple[Token, datetime | None]]:
    """Return a user's tokens ordered by name, including expired tokens, each with its last use if that is known."""
    statement = (
        select(col(TokenUse.used_at), *_TOKEN)
        .join_from(Token, TokenUse, col(TokenUse.token_id) == col(Token.id), isouter=True)
        .where(col(Token.user_id) == user_id)
        .order_by(col(Token.name))
    )
    rows = await connection.execute(statement)
    return [(Token(**dict(zip(_TOKEN.keys(), values, strict=True))), used_at) for used_at, *values in rows]


async def revoke_token(connection: AsyncConnection, *, user_id: int, name: str) -> Token | None:
    """Revoke a user's token of that name and return it; None if it does not exist.

    A client that presents the token later learns that it was revoked.
    """
    statement = delete(Token).where(col(Token.user_id) == user_id, col(Token.name) == name).returning(*_TOKEN)
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is None:
        return None
    token = Token(**row)
    await revoked_tokens.keep_revoked(connection, token)
    return token
