"""Whose token it is (protocol: "Authentication")."""

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import Reason, Unauthenticated
from services.database.transactions import Database
from services.locks.tokens import token_hash
from services.locks.user_table import TokenUser, find_token_user


async def authenticate(database: Database, token: str) -> TokenUser:
    """Return the user whose token this is, and how long it is valid.

    Raises `Unauthenticated` (BAD_CREDENTIALS) for one that is unknown or revoked, in the same words, and for one that
    has expired, with the metadata `expired`: nobody but who was given it can show it.
    """

    async def work(connection: AsyncConnection) -> TokenUser | None:
        return await find_token_user(connection, token_hash(token))

    user = await database.run(work)
    if user is None:
        raise Unauthenticated(Reason.BAD_CREDENTIALS, "the token is not valid")
    if user.valid_seconds <= 0:
        raise Unauthenticated(Reason.BAD_CREDENTIALS, "the token has expired", expired="true")
    return user
