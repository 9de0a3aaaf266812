"""Tokens: their secrets, of which only the hash is stored, and authentication by them (docs/protocol.md).

Revoked tokens are retained in a separate table, so that their refusal can say why, and no code that grants access reads
them. This discloses nothing, because only the person who was given a token can present it.
"""

import hashlib
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, delete, exists, extract, func, literal_column, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import AlreadyExists, PermissionDenied, Reason, Unauthenticated
from services.common.token_prefix import TOKEN_PREFIX
from services.database.transactions import Database
from services.locks.access.policy import Session
from services.locks.access.request_limits import LIMITS
from services.locks.access.token_uses import TokenUses
from services.locks.audit.event_types import TOKEN_DELETED
from services.locks.audit.recorder import record
from services.locks.models import Issuer, RevokedToken, Token, TokenGrant, TokenUse, User

SIGN_IN_NAME = "sign-in-"
"""The beginning of the names of tokens that were given for JSON Web Tokens."""

_BYTES = 32
_REVOKED_KEPT = timedelta(days=90)

_USER = User.__table__.c
_TOKEN = Token.__table__.c
_VALID_SECONDS = extract("epoch", col(Token.expires_at) - func.now())
IS_OF_SIGN_IN = col(Token.issuer_id).is_not(None) & col(Token.name).startswith(SIGN_IN_NAME)
"""The condition for tokens that were given for JSON Web Tokens."""

IS_LISTED = (
    col(Token.forge_id).is_(None) & col(Token.ssh_key_id).is_(None) & or_(col(Token.issuer_id).is_(None), IS_OF_SIGN_IN)
)
"""The condition for tokens that were given here: not those of forges and SSH sessions, and no JSON Web Tokens."""

_KIND = (
    col(Token.ssh_key_id).is_not(None),
    exists().where(col(TokenGrant.token_id) == col(Token.id)),
    col(Token.issuer_id).is_not(None) & ~IS_OF_SIGN_IN,
)

# The fields that a trigger records of a token.
_AUDIT_FIELDS: ColumnElement[dict[str, Any]] = literal_column("locks.audit_fields('token', to_jsonb(tokens))")


@dataclass(frozen=True, slots=True)
class TokenUser:
    """A token's user, and the seconds before the token expires: infinite without an expiry, 0 or less after it.

    What a `scoped` token may do depends on the token too: it is that of an issuer, or was given for one.
    """

    token_id: int
    user: User
    valid_seconds: float
    forge_id: int | None = None
    """The forge whose token it is; it is to be asked whether the token is still good."""
    issuer_id: int | None = None
    """The issuer of the JSON Web Token that it is, or for which it was given."""
    limits: tuple[int | None, int | None, int | None] = (None, None, None)
    """The values of `request_limits.LIMITS`."""
    is_of_session: bool = False
    """True for the token of an SSH session."""
    is_of_program: bool = False
    """True for the token of a program, such as a job: an issuer's rules give it roles of its own."""
    is_json_web_token: bool = False
    """True for what an issuer has made, and false for what was given for it here."""

    @property
    def scoped(self) -> bool:
        """True where the token, and not only its user, decides what may be done."""
        return self.forge_id is not None or self.issuer_id is not None or self.is_of_session

    @property
    def is_of_person(self) -> bool:
        """True for a token that was made here for a person: nobody administers with any other."""
        return not (self.is_of_session or self.is_of_program or self.is_json_web_token)


@dataclass(frozen=True, slots=True)
class TokenValidity:
    """The seconds before a token expires, as in `TokenUser`; its forge or session, if it is of one; and its hash."""

    seconds: float
    forge_id: int | None = None
    token_hash: bytes = b""
    session: Session | None = None


class ListedToken(NamedTuple):
    """A token in a list: its last use if that is known, and its issuer's name if it was given for a sign-in there."""

    token: Token
    used_at: datetime | None
    issuer: str


def new_secret() -> str:
    """Return a new secret: 256 random bits in text that is easy to copy and to recognise."""
    return f"{TOKEN_PREFIX}{secrets.token_urlsafe(_BYTES)}"


def token_hash(secret: str) -> bytes:
    """Return the SHA-256 of a secret. The secret is long and random: it needs no salt and no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", errors="surrogatepass")).digest()


async def authenticate(database: Database, uses: TokenUses, token: str) -> TokenUser:
    """Return the user of a token as `find_token` does, and raise `Unauthenticated` for an unknown one too.

    The token of a forge is refused as well: only the forge knows whether it is still good. Raises `PermissionDenied`
    (ACCESS_DENIED) for the token of an SSH session or of a program, and for a JSON Web Token, which others see too.
    """
    user = await find_token(database, uses, token)
    if user is None or user.forge_id is not None:
        raise Unauthenticated(Reason.BAD_CREDENTIALS, "the token is not valid")
    if not user.is_of_person:
        message = "the token is one of an SSH session, of a program or of an issuer: use one that was made here"
        raise PermissionDenied(Reason.ACCESS_DENIED, message)
    return user


async def find_token(database: Database, uses: TokenUses, token: str) -> TokenUser | None:
    """Return the user of a token with the seconds of its validity, and record its use; None for an unknown token.

    Raises `Unauthenticated` (BAD_CREDENTIALS) for an expired token, with the metadata `expired`; and for a revoked
    token, with its name as the metadata `revoked`.
    """
    hashed = token_hash(token)

    async def work(connection: AsyncConnection) -> tuple[TokenUser | None, str | None]:
        user = await _find_token_user(connection, hashed)
        return user, None if user is not None else await _find_revoked(connection, hashed)

    user, revoked = await database.run(work)
    if revoked is not None:
        raise Unauthenticated(Reason.BAD_CREDENTIALS, f"the token {revoked} was revoked", revoked=revoked)
    if user is None:
        return None
    if user.valid_seconds <= 0:
        raise Unauthenticated(Reason.BAD_CREDENTIALS, "the token has expired", expired="true")
    uses.record(user.token_id)
    return user


async def _find_token_user(connection: AsyncConnection, hashed: bytes) -> TokenUser | None:
    statement = (
        select(col(Token.id), _VALID_SECONDS, col(Token.forge_id), col(Token.issuer_id), *_KIND, *LIMITS, *_USER)
        .join_from(Token, User, col(Token.user_id) == col(User.id))
        .where(col(Token.token_hash) == hashed)
    )
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    token_id, seconds, forge_id, issuer_id, *rest = row
    kind, limits, values = rest[: len(_KIND)], rest[len(_KIND) : -len(_USER)], rest[-len(_USER) :]
    user = User(**dict(zip(_USER.keys(), values, strict=True)))
    return TokenUser(token_id, user, _seconds(seconds), forge_id, issuer_id, tuple(limits), *kind)


async def _find_revoked(connection: AsyncConnection, hashed: bytes) -> str | None:
    statement = select(col(RevokedToken.name)).where(col(RevokedToken.token_hash) == hashed)
    name: str | None = await connection.scalar(statement)
    return name


async def validity_of(connection: AsyncConnection, *, token_id: int, user_id: int) -> TokenValidity:
    """Return the validity of a user's token; of 0 seconds if the user has no such token."""
    session = col(Token.ssh_key_id).is_not(None), col(Token.ssh_repository_id), col(Token.ssh_may_write)
    statement = select(_VALID_SECONDS, col(Token.forge_id), col(Token.token_hash), *session)
    found = statement.where(col(Token.id) == token_id, col(Token.user_id) == user_id)
    row = (await connection.execute(found)).one_or_none()
    if row is None:
        return TokenValidity(0.0)
    seconds, forge_id, token_hash, is_of_session, repository_id, may_write = row
    bounds = Session(repository_id, may_write=bool(may_write)) if is_of_session else None
    return TokenValidity(_seconds(seconds), forge_id, token_hash, bounds)


async def check_valid(connection: AsyncConnection, *, token_id: int, user_id: int) -> TokenValidity:
    """Return the validity of a user's token. Raises `Unauthenticated` if it has ended, or is not the user's."""
    validity = await validity_of(connection, token_id=token_id, user_id=user_id)
    if validity.seconds <= 0:
        raise Unauthenticated(Reason.BAD_CREDENTIALS, "the token is not valid any more")
    return validity


def _seconds(left: Decimal | float | None) -> float:
    """Return the seconds before an expiry as a float; infinite without an expiry."""
    return math.inf if left is None else float(left)


async def create_token(
    connection: AsyncConnection,
    *,
    user_id: int,
    name: str,
    token_hash: bytes,
    expires_at: datetime | None,
    limit: int | None = None,
) -> Token:
    """Add a token, with a limit of its requests.

    Raises `AlreadyExists` (TOKEN_EXISTS) if the name is taken by a token with another hash.
    """
    statement = (
        insert(Token)
        .values(user_id=user_id, name=name, token_hash=token_hash, expires_at=expires_at, requests_per_hour=limit)
        .on_conflict_do_nothing(index_elements=["user_id", "name"])
    )
    await connection.execute(statement)
    found = select(*_TOKEN).where(col(Token.user_id) == user_id, col(Token.name) == name)
    row = (await connection.execute(found)).mappings().one_or_none()
    if row is None or row["token_hash"] != token_hash:
        raise AlreadyExists(Reason.TOKEN_EXISTS, f"name: the user has a token {name} already")
    return Token(**row)


async def list_tokens(
    connection: AsyncConnection, user_id: int, *, after: str = "", limit: int | None = None
) -> Sequence[ListedToken]:
    """Return at most `limit` of a user's tokens, or all, whose names are after `after`, ordered by name.

    Expired tokens are included, except for those of sign-ins, which come every hour. Tokens of forges, JSON Web Tokens
    and tokens of SSH sessions are not listed: they are not given here, or end with their session.
    """
    statement = (
        select(col(TokenUse.used_at), col(Issuer.name), *_TOKEN)
        .join_from(Token, TokenUse, col(TokenUse.token_id) == col(Token.id), isouter=True)
        .join(Issuer, col(Issuer.id) == col(Token.issuer_id), isouter=True)
        .where(
            col(Token.user_id) == user_id,
            col(Token.name) > after,
            IS_LISTED,
            or_(col(Token.issuer_id).is_(None), col(Token.expires_at) > func.now()),
        )
        .order_by(col(Token.name))
        .limit(limit)
    )
    rows = await connection.execute(statement)
    return [
        ListedToken(Token(**dict(zip(_TOKEN.keys(), values, strict=True))), used_at, issuer or "")
        for used_at, issuer, *values in rows
    ]


async def revoke_token(connection: AsyncConnection, *, user_id: int, name: str) -> Token | None:
    """Revoke a user's token of that name and return it; None if it does not exist.

    A client that presents the token later learns that it was revoked.
    """
    return await _revoke(connection, (col(Token.user_id) == user_id) & (col(Token.name) == name))


async def revoke_listed_token(connection: AsyncConnection, *, user_id: int, name: str) -> Token | None:
    """Revoke a token that `list_tokens` returns, as `revoke_token` does; None for any other."""
    return await _revoke(connection, (col(Token.user_id) == user_id) & (col(Token.name) == name) & IS_LISTED)


async def revoke_sign_in_token(connection: AsyncConnection, token_id: int) -> Token | None:
    """Revoke a token that was given for a JSON Web Token, as `revoke_token` does; None for any other."""
    return await _revoke(connection, (col(Token.id) == token_id) & IS_OF_SIGN_IN)


async def _revoke(connection: AsyncConnection, condition: ColumnElement[bool]) -> Token | None:
    """Revoke the one token of this condition."""
    statement = delete(Token).where(condition).returning(_AUDIT_FIELDS, *_TOKEN)
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    fields, *values = row
    token = Token(**dict(zip(_TOKEN.keys(), values, strict=True)))
    await _keep_revoked(connection, token)
    # The trigger records none of these, because most of them are deleted when they have expired.
    if not (token.forge_id is None and token.issuer_id is None and token.ssh_key_id is None):
        subject = f"token {fields['user']}/{token.name}"
        await record(connection, TOKEN_DELETED, subject=subject, before=fields)
    return token


async def _keep_revoked(connection: AsyncConnection, token: Token) -> None:
    """Record a token that is revoked now, and delete the records of tokens revoked more than 90 days ago."""
    new = insert(RevokedToken).values(token_hash=token.token_hash, user_id=token.user_id, name=token.name)
    # The same secret can be revoked twice: the secret of the first administrator is a setting.
    again = {name: new.excluded[name] for name in ("user_id", "name", "revoked_at")}
    await connection.execute(new.on_conflict_do_update(index_elements=["token_hash"], set_=again))
    await connection.execute(delete(RevokedToken).where(col(RevokedToken.revoked_at) < func.now() - _REVOKED_KEPT))
