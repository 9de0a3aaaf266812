"""Tokens that were revoked, so that whoever shows one learns why it opens nothing: only who was given it can.

They lie in a table of their own, which nothing reads that lets anybody in.
"""

from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.models import RevokedToken, Token

_KEPT = timedelta(days=90)


async def keep_revoked(connection: AsyncConnection, token: Token) -> None:
    """Keep a token that is revoked now, and forget those that were more than 90 days ago."""
    new = insert(RevokedToken).values(token_hash=token.token_hash, user_id=token.user_id, name=token.name)
    # A secret can be given again: the one of the first administrator is a setting.
    again = {name: new.excluded[name] for name in ("user_id", "name", "revoked_at")}
    await connection.execute(new.on_conflict_do_update(index_elements=["token_hash"], set_=again))
    await connection.execute(delete(RevokedToken).where(col(RevokedToken.revoked_at) < func.now() - _KEPT))


async def find_revoked(connection: AsyncConnection, token_hash: bytes) -> str | None:
    """Return the name of a revoked token; None where it is not known as one."""
    statement = select(col(RevokedToken.name)).where(col(RevokedToken.token_hash) == token_hash)
    name: str | None = await connection.scalar(statement)
    return name
