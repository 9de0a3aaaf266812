"""Tokens of forges in the database, and the roles that forges have reported for them."""

from dataclasses import dataclass

from sqlalchemy import delete, extract, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.access.policy import Role
from services.locks.forges.records import Tied
from services.locks.models import Identity, Token, TokenRole

_UNUSED_DAYS = 30
_MAX_DELETED = 1_000

# `created_at` is the time of the look-up. The row of a repository that was tied to another one meanwhile gets no role.
_PUT = text("""
    INSERT INTO token_roles (token_id, repository_id, role, created_at, valid_until)
        SELECT :token_id, id, :role, now() - make_interval(secs => CAST(:age AS float8)),
            now() + make_interval(secs => CAST(:granted AS float8) - CAST(:age AS float8))
        FROM repositories
        WHERE id = :repository_id AND forge_id = :forge_id AND forge_repository = :forge_repository
        FOR SHARE
    ON CONFLICT (token_id, repository_id) DO UPDATE
        SET role = excluded.role, created_at = excluded.created_at, valid_until = excluded.valid_until
""")
_PROLONG = text("""
    UPDATE token_roles SET valid_until = greatest(valid_until, least(
            now() + make_interval(secs => CAST(:step AS float8)),
            created_at + make_interval(secs => CAST(:lifetime AS float8))))
    WHERE token_id = :token_id AND repository_id = :repository_id
        AND created_at + make_interval(secs => CAST(:lifetime AS float8)) > now()
    RETURNING extract(epoch FROM valid_until - now())
""")
_UNUSED = text("""
    SELECT id FROM tokens
    WHERE forge_id IS NOT NULL AND created_at < now() - make_interval(days => :days) AND NOT EXISTS (
        SELECT FROM token_roles WHERE token_id = tokens.id AND valid_until > now() - make_interval(days => :days))
    LIMIT :limit FOR UPDATE SKIP LOCKED
""")


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token that the forge has accepted before."""

    id: int
    forge_id: int
    token_hash: bytes


async def put_token(connection: AsyncConnection, *, user_id: int, forge_id: int, token_hash: bytes) -> int | None:
    """Add the token of a user of a forge, unless it is there, and return its id; None if it is another user's."""
    name = f"forge-{token_hash.hex()[:24]}"
    statement = (
        insert(Token)
        .values(user_id=user_id, name=name, token_hash=token_hash, forge_id=forge_id, expires_at=None)
        .on_conflict_do_nothing()
    )
    await connection.execute(statement)
    found = select(col(Token.id)).where(
        col(Token.token_hash) == token_hash, col(Token.user_id) == user_id, col(Token.forge_id) == forge_id
    )
    token_id: int | None = await connection.scalar(found)
    return token_id


async def delete_token(connection: AsyncConnection, token_id: int) -> None:
    """Delete a token that the forge does not accept any more."""
    await connection.execute(delete(Token).where(col(Token.id) == token_id))


async def is_known_account(connection: AsyncConnection, *, forge_id: int, subject: str) -> bool:
    """Return whether an account of a forge has a user here."""
    statement = select(col(Identity.id)).where(col(Identity.forge_id) == forge_id, col(Identity.subject) == subject)
    return await connection.scalar(statement) is not None


async def put_role(
    connection: AsyncConnection, *, token_id: int, tied: Tied, role: Role | None, age: float, granted: float
) -> None:
    """Replace the role of a token by what a look-up, `age` seconds ago, has told; None takes it away."""
    ids = {"token_id": token_id, "repository_id": tied.repository_id}
    if role is None:
        await connection.execute(delete(TokenRole).where(*(col(getattr(TokenRole, name)) == ids[name] for name in ids)))
        return
    values = {"role": role.value, "age": age, "granted": granted, "forge_id": tied.forge.id}
    await connection.execute(_PUT, {**ids, **values, "forge_repository": tied.forge_repository})


async def role_seconds(connection: AsyncConnection, *, token_id: int, repository_id: int) -> float:
    """Return the seconds for which the role of a token is valid; 0 or less if there is none."""
    left = extract("epoch", col(TokenRole.valid_until) - func.now())
    statement = select(left).where(col(TokenRole.token_id) == token_id, col(TokenRole.repository_id) == repository_id)
    return float(await connection.scalar(statement) or 0)


async def prolong_role(
    connection: AsyncConnection, *, token_id: int, repository_id: int, step: float, lifetime: float
) -> float:
    """Let a role go on for `step` seconds while its forge is away; return the seconds for which it is valid.

    It ends `lifetime` seconds after the last look-up, and 0 or less is returned then.
    """
    values = {"token_id": token_id, "repository_id": repository_id, "step": step, "lifetime": lifetime}
    return float(await connection.scalar(_PROLONG, values) or 0)


async def delete_roles(connection: AsyncConnection, repository_id: int) -> None:
    """Delete the roles in a repository that is tied to another repository from now on."""
    await connection.execute(delete(TokenRole).where(col(TokenRole.repository_id) == repository_id))


async def delete_unused(connection: AsyncConnection) -> None:
    """Delete tokens of forges that were not used for a month; one that is used again is looked up anew."""
    unused = (await connection.scalars(_UNUSED, {"days": _UNUSED_DAYS, "limit": _MAX_DELETED})).all()
    # A statement that deletes nothing would notify of a revocation, too.
    if unused:
        await connection.execute(delete(Token).where(col(Token.id).in_(unused)))
