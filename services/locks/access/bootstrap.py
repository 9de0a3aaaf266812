"""Bootstrap of the first administrator, so that somebody can create the other users."""

from pydantic import SecretStr
from sqlalchemy import update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.database.transactions import Database
from services.locks.access.tokens import create_token, list_tokens, new_secret, revoke_token, token_hash
from services.locks.access.users import find_origins, find_user
from services.locks.audit.partitions import make_partitions
from services.locks.audit.recorder import BOOTSTRAP, acting, watch_transactions
from services.locks.models import User

USER = "admin"
# No user has a name with a space.
_ACTOR = "towpath migrate"
TOKEN = "local"  # noqa: S105 - the name of a token, not its secret


async def bootstrap(database: Database, token: SecretStr | None = None) -> str:
    """Create the user `admin` if it is missing, make it an administrator, and return the secret of its token.

    The token is named `local`; its secret is `token`, or a new secret if that is None. It replaces an earlier token of
    that name. A `local` token that has this secret already, and no expiry, stays as it is. Raises ValueError if
    somebody has come with that name by a forge or an issuer.
    """
    secret = token.get_secret_value() if token is not None else new_secret()

    async def work(connection: AsyncConnection) -> None:
        await connection.execute(insert(User).values(name=USER, administrator=True).on_conflict_do_nothing())
        user = await find_user(connection, USER, hold=True)
        if (origin := (await find_origins(connection, [user.id])).get(user.id)) is not None:
            raise ValueError(f"the user {USER} has come by the {origin}: remove it, as the administrator has this name")
        await connection.execute(update(User).where(col(User.name) == USER).values(administrator=True))
        for standing in (listed.token for listed in await list_tokens(connection, user.id)):
            if (standing.name, standing.token_hash, standing.expires_at) == (TOKEN, token_hash(secret), None):
                return
        await revoke_token(connection, user_id=user.id, name=TOKEN)
        await create_token(connection, user_id=user.id, name=TOKEN, token_hash=token_hash(secret), expires_at=None)

    # Before the first event, which would keep its month in the default partition.
    await make_partitions(database)
    watch_transactions(database.engine)
    with acting(_ACTOR, BOOTSTRAP):
        await database.run(work)
    return secret
