"""Identities: the users of forges and issuers, known by the subject that never changes, whatever their login."""

import re
from collections.abc import Iterator
from itertools import count

from sqlalchemy import insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.access.bootstrap import USER
from services.locks.look_alikes import find_look_alike
from services.locks.models import Identity, User
from services.locks.validation import is_name

_USER = User.__table__.c
_NAME_CHARACTERS = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._@+-]+", re.ASCII)
_LOGIN_CHARACTERS = 255
_HOLD_SUBJECT = text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 1))")


async def user_of(
    connection: AsyncConnection,
    *,
    subject: str,
    login: str,
    provider: str,
    forge_id: int | None = None,
    issuer_id: int | None = None,
) -> User:
    """Return the user of an identity at a forge or an issuer, whose name is `provider`; add one if there is none.

    A new user is named by its login, or, if that is no name or is taken, by both, such as `alice@github`. No user is
    found by a name, because anybody may choose a login that is the name of another user here. A user keeps its name
    when its login changes.
    """
    of_provider = col(Identity.forge_id) == forge_id if forge_id is not None else col(Identity.issuer_id) == issuer_id
    found = (
        select(col(Identity.id), col(Identity.login), *_USER)
        .join_from(Identity, User, col(Identity.user_id) == col(User.id))
        .where(of_provider, col(Identity.subject) == subject)
    )
    login = login[:_LOGIN_CHARACTERS].replace("\0", "\ufffd")
    row = (await connection.execute(found)).one_or_none()
    if row is None:
        # Two first requests of one identity must not add two users.
        await connection.execute(_HOLD_SUBJECT, {"key": f"towpath identity {forge_id} {issuer_id} {subject}"})
        row = (await connection.execute(found)).one_or_none()
    if row is None:
        user = await _add_user(connection, login, provider)
        values = {"forge_id": forge_id, "issuer_id": issuer_id, "subject": subject, "login": login}
        await connection.execute(insert(Identity).values(user_id=user.id, **values))
        return user
    identity_id, known_login, *values_of_user = row
    if known_login != login:
        await connection.execute(update(Identity).where(col(Identity.id) == identity_id).values(login=login))
    return User(**dict(zip(_USER.keys(), values_of_user, strict=True)))


async def _add_user(connection: AsyncConnection, login: str, provider: str) -> User:
    for name in _names(login, provider):
        if await find_look_alike(connection, col(User.name), name) is None:
            statement = insert(User).values(name=name, administrator=False).returning(*_USER)
            return User(**(await connection.execute(statement)).mappings().one())
    raise AssertionError("unreachable: names are numbered without an end")


def _names(login: str, provider: str) -> Iterator[str]:
    """Yield names for a user, the best first.

    That of the first administrator is left to it, whether it is there or not: `bootstrap` would give it rights.
    """
    if is_name(login) and not login.startswith("-") and login.lower() != USER:
        yield login
    readable = _NOT_IN_NAMES.sub("-", login).strip("-") or "user"
    suffix = f"@{_NOT_IN_NAMES.sub('-', provider)[:24]}"
    yield f"{readable[: _NAME_CHARACTERS - len(suffix)]}{suffix}"
    for number in count(2):
        numbered = f"-{number}{suffix}"
        yield f"{readable[: _NAME_CHARACTERS - len(numbered)]}{numbered}"
