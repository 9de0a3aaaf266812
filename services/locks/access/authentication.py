"""Authentication of users by their tokens (docs/protocol.md, "Authentication")."""

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import Reason, Unauthenticated
from services.database.transactions import Database
from services.locks.access.revoked_tokens import find_revoked
from services.locks.access.token_uses import TokenUses
from services.locks.access.tokens import token_hash
from services.locks.access.users import TokenUser, find_token_user


async def authenticate(database: Database, uses: TokenUses, token: str) -> TokenUser:
    """Return the user of a token with the seconds of its validity, and record that the token is used.

    Raises `Unauthenticated` (BAD_CREDENTIALS) for an unknown token; for an expired token, with the metadata `expired`;
    and for a revoked token, with its name as the metadata `revoked`. The metadata disclose nothing to a stranger,
    because only the person who was given a token can present it.
    """
    hashed = token_hash(token)

    async def work(connection: AsyncConnection) -> tuple[TokenUser | None, str | None]:
        user = await find_token_user(connection, hashed)
        return user, None if user is not None else await find_revoked(connection, hashed)

    user, revoked = await database.run(work)
    if revoked is not None:
        raise Unauthenticated(Reason.BAD_CREDENTIALS, f"the token {revoked} was revoked", revoked=revoked)
    if user is None:
        raise Unauthenticated(Reason.BAD_CREDENTIALS, "the token is not valid")
    if user.valid_seconds <= 0:
        raise Unauthenticated(Reason.BAD_CREDENTIALS, "the token has expired", expired="true")
    uses.record(user.token_id)
    return user
