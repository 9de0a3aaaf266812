"""The user who pushes, by what a git server tells: a name, the id of an account, and where they come from."""

from dataclasses import dataclass

from sqlalchemy import exists, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import InvalidArgument, Reason
from services.locks.models import Forge, Identity, Issuer, Repository, User

_PROVIDERS: dict[str, type[Forge | Issuer]] = {"forge": Forge, "issuer": Issuer}


@dataclass(frozen=True, slots=True)
class Pusher:
    """A user as a git server names it; the name is empty, or one that no user has, where nobody is known.

    `origin` is such as `forge github` or `issuer sso`, or empty for a user that an administrator has added. None is the
    forge to which the repository is tied, and empty where it is tied to none.
    """

    name: str
    account_id: str = ""
    origin: str | None = None


async def find_pusher(connection: AsyncConnection, pusher: Pusher, *, repository_id: int) -> User | None:
    """Return the user who pushes; None for nobody that is known, and for the name of two accounts.

    Anybody may take the name of a colleague at a forge or an issuer, so that a name counts among the users of its
    origin alone. A user of a forge is known by the id of the account there or, where that is not told, by its login.
    Raises `InvalidArgument` (INVALID_FIELD) for an origin that is not there.
    """
    origin = await _origin_of(connection, pusher, repository_id)
    if not (pusher.name or pusher.account_id) or "\0" in pusher.name + pusher.account_id:
        return None
    kind, _, provider = origin.partition(" ")
    users = select(*User.__table__.c)
    if kind == "forge":
        is_account = col(Identity.login) == pusher.name
        if pusher.account_id:
            is_account = col(Identity.subject) == pusher.account_id
        users = users.join(Identity, col(Identity.user_id) == col(User.id))
        users = users.join(Forge, col(Forge.id) == col(Identity.forge_id))
        users = users.where(col(Forge.name) == provider, is_account)
    elif kind == "issuer":
        users = users.join(Identity, col(Identity.user_id) == col(User.id))
        users = users.join(Issuer, col(Issuer.id) == col(Identity.issuer_id))
        users = users.where(col(Issuer.name) == provider, col(User.name) == pusher.name)
    else:
        has_come = exists().where(col(Identity.user_id) == col(User.id))
        users = users.where(col(User.name) == pusher.name, ~has_come)
    found = (await connection.execute(users)).mappings().all()
    return User(**found[0]) if len(found) == 1 else None


async def _origin_of(connection: AsyncConnection, pusher: Pusher, repository_id: int) -> str:
    if pusher.origin is None:
        tied_to = select(col(Forge.name)).join(Repository, col(Repository.forge_id) == col(Forge.id))
        forge = await connection.scalar(tied_to.where(col(Repository.id) == repository_id))
        return "" if forge is None else f"forge {forge}"
    kind, _, name = pusher.origin.partition(" ")
    model = _PROVIDERS.get(kind)
    known = None if model is None or "\0" in name else select(exists().where(col(model.name) == name))
    if pusher.origin and (known is None or not await connection.scalar(known)):
        expected = "'forge NAME' or 'issuer NAME' of one that is there, or '' for users that an administrator has added"
        raise InvalidArgument(Reason.INVALID_FIELD, f"origin: expected {expected}")
    return pusher.origin
