"""Tokens that users make and end by themselves, with another token of theirs.

No token gets more rights, or a longer life, by making another one.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import exists, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import InvalidArgument, NotFound, PermissionDenied, Reason, ResourceExhausted
from services.locks.access.grants import granted_to
from services.locks.access.tokens import IS_LISTED, IS_OF_SIGN_IN, check_valid, create_token, revoke_listed_token
from services.locks.models import Token, TokenGrant, User

MAX_TOKENS = 100
"""The tokens that a user may have, beside those of sign-ins, before the user makes another one."""

_MIN_SECONDS, _MAX_SECONDS = 60, 10 * 365 * 24 * 3600


class _Maker(NamedTuple):
    """The token that makes another one, and the expiry of that one."""

    is_listed: bool
    is_of_sign_in: bool
    is_of_program: bool
    has_own_grants: bool
    requests_per_hour: int | None
    new_expires_at: datetime | None


def check_lifetime(field: str, seconds: int) -> None:
    """Raise `InvalidArgument` unless a number of seconds is 0, for no end, or within the bounds."""
    if seconds and not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        expected = f"{_MIN_SECONDS} to {_MAX_SECONDS:,} seconds, or 0 for no end"
        raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected {expected}")


async def make_token(
    connection: AsyncConnection, *, user_id: int, token_id: int, name: str, token_hash: bytes, seconds: int
) -> Token:
    """Add a token to the user of a token, valid for `seconds`, or 0 for ever, but for no longer than that token.

    Raises `Unauthenticated` (BAD_CREDENTIALS) if the user has no such token, `PermissionDenied` (ACCESS_DENIED) if it
    may make none, `AlreadyExists` (TOKEN_EXISTS), and `ResourceExhausted` (TOO_MANY_TOKENS).
    """
    # One at a time: two calls at once would both find room for the last token.
    await connection.execute(select(col(User.id)).where(col(User.id) == user_id).with_for_update(key_share=True))
    # The token is not revoked before this transaction ends.
    await connection.execute(select(col(Token.id)).where(col(Token.id) == token_id).with_for_update(read=True))
    await check_valid(connection, token_id=token_id, user_id=user_id)
    maker = await _find_maker(connection, user_id=user_id, token_id=token_id, seconds=seconds)
    if (reason := _refusal(maker)) is not None:
        raise PermissionDenied(Reason.ACCESS_DENIED, reason)
    counted = (
        select(func.count())
        .select_from(Token)
        .where(col(Token.user_id) == user_id, IS_LISTED, ~IS_OF_SIGN_IN, col(Token.token_hash) != token_hash)
    )
    if (await connection.scalar(counted) or 0) >= MAX_TOKENS:
        message = f"you have {MAX_TOKENS} tokens, and a user may have no more; revoke some that are not needed"
        raise ResourceExhausted(Reason.TOO_MANY_TOKENS, message)
    return await create_token(
        connection, user_id=user_id, name=name, token_hash=token_hash, expires_at=maker.new_expires_at
    )


async def _find_maker(connection: AsyncConnection, *, user_id: int, token_id: int, seconds: int) -> _Maker:
    wanted = func.now() + timedelta(seconds=seconds) if seconds else literal(None)
    statement = select(
        IS_LISTED,
        IS_OF_SIGN_IN,
        exists().where(col(TokenGrant.token_id) == token_id),
        granted_to(user_id=user_id, token_id=0).exists(),
        col(Token.requests_per_hour),
        # The earlier one; a moment that is NULL is not compared.
        func.least(wanted, col(Token.expires_at)),
    ).where(col(Token.id) == token_id)
    return _Maker(*(await connection.execute(statement)).one())


def _refusal(maker: _Maker) -> str | None:
    """Return why a token makes no other one; None if it may."""
    if not maker.is_listed:
        return "the token of a forge, of an issuer or of an SSH session makes no other token"
    if maker.requests_per_hour:
        return "the token has a limit of requests of its own, and makes no other token, which would not have it"
    if maker.is_of_program:
        return "the token of a program makes no other token"
    if maker.is_of_sign_in and not maker.has_own_grants:
        return (
            "all that you may do comes from your sign-in, and another token could do nothing: "
            "use towpath login, or ask an administrator for a grant"
        )
    return None


async def end_token(connection: AsyncConnection, *, user_id: int, token_id: int, name: str) -> Token:
    """Revoke a listed token of the user of a token, and return it.

    Raises `Unauthenticated` (BAD_CREDENTIALS) if the user has no such token, `PermissionDenied` (ACCESS_DENIED) if it
    may end none, and `NotFound` (TOKEN_NOT_FOUND).
    """
    await check_valid(connection, token_id=token_id, user_id=user_id)
    if not await connection.scalar(select(IS_LISTED).where(col(Token.id) == token_id)):
        message = "the token of a forge, of an issuer or of an SSH session ends no other token"
        raise PermissionDenied(Reason.ACCESS_DENIED, message)
    own = select(col(Token.name)).where(col(Token.id) == token_id, exists().where(col(TokenGrant.token_id) == token_id))
    if await connection.scalar(own) not in (None, name):
        # All jobs of a program are one user, and those of a pull request are not trusted by the others.
        raise PermissionDenied(Reason.ACCESS_DENIED, "the token of a program ends itself alone")
    token = await revoke_listed_token(connection, user_id=user_id, name=name)
    if token is None:
        raise NotFound(Reason.TOKEN_NOT_FOUND, f"you have no token {name}")
    return token
