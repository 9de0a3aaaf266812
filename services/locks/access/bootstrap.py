"""The first administrator, so that there is somebody who can make the others."""

from pydantic import SecretStr
from sqlalchemy import update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.database.transactions import Database
from services.locks.access.tokens import new_secret, token_hash
from services.locks.access.users import create_token, find_user, list_tokens, revoke_token
from services.locks.models import User

USER = "admin"
TOKEN = "local"  # noqa: S105 - the name of a token, not its secret


async def bootstrap(database: Database, token: SecretStr | None = None) -> str:
    """Make the user `admin` where it is missing, and an administrator in any case; return the secret of its token.

    That token is called `local` and has the secret `token`, or a new one; it takes the place of an earlier one of that
    name. Where the same one is there already, nothing changes.
    """
    secret = token.get_secret_value() if token is not None else new_secret()

    async def work(connection: AsyncConnection) -> None:
        await connection.execute(insert(User).values(name=USER, administrator=True).on_conflict_do_nothing())
        await connection.execute(update(User).where(col(User.name) == USER).values(administrator=True))
        user = await find_user(connection, USER, hold=True)
        for standing, _ in await list_tokens(connection, user.id):
            if (standing.name, standing.token_hash, standing.expires_at) == (TOKEN, token_hash(secret), None):
                return
        await revoke_token(connection, user_id=user.id, name=TOKEN)
        await create_token(connection, user_id=user.id, name=TOKEN, token_hash=token_hash(secret), expires_at=None)

    await database.run(work)
    return secret
