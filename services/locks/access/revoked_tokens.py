"""Revoked tokens, so that the refusal of a revoked token can say why.

This discloses nothing, because only the person who was given a token can present it. Revoked tokens are in a separate
table, so that no code that grants access reads them.
"""

from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.models import RevokedToken, Token

_KEPT = timedelta(days=90)


async def keep_revoked(connection: AsyncConnection, token: Token) -> None:
    """Record a token that is revoked now, and delete the records of tokens revoked more than 90 days ago."""
    new = insert(RevokedToken).values(token_hash=token.token_hash, user_id=token.user_id, name=token.name)
    # The same secret can be revoked twice: the secret of the first administrator is a setting.
    again = {name: new.excluded[name] for name in ("user_id", "name", "revoked_at")}
    await connection.execute(new.on_conflict_do_update(index_elements=["token_hash"], set_=again))
    await connection.execute(delete(RevokedToken).where(col(RevokedToken.revoked_at) < func.now() - _KEPT))


async def find_revoked(connection: AsyncConnection, token_hash: bytes) -> str | None:
    """Return the name of a revoked token; None if no revoked token has this hash."""
    statement = select(col(RevokedToken.name)).where(col(RevokedToken.token_hash) == token_hash)
    name: str | None = await connection.scalar(statement)
    return name
