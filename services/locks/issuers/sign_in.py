"""Sign-in by JSON Web Tokens: a verified one becomes a row of `tokens`, and may be exchanged for a token of ours."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import InvalidArgument, Reason, ResourceExhausted, Unauthenticated
from services.common.token_prefix import TOKEN_PREFIX
from services.database.transactions import Database
from services.locks import metrics
from services.locks.access.identities import user_of
from services.locks.access.third_parties import Asker
from services.locks.access.token_uses import TokenUses
from services.locks.access.tokens import (
    SIGN_IN_NAME,
    TokenUser,
    find_token,
    new_secret,
    revoke_sign_in_token,
    revoke_token,
    token_hash,
)
from services.locks.audit.recorder import SIGN_IN, acting
from services.locks.issuers.json_web_tokens import is_json_web_token, parse
from services.locks.issuers.key_sets import KeySets
from services.locks.issuers.refusal import refused
from services.locks.issuers.rights import find_rights
from services.locks.issuers.table import find_by_url
from services.locks.issuers.verification import check_claims, check_header, check_signature
from services.locks.models import Issuer, Token, User

# Of one user, and of a program's of one ref: a job of a pull request takes none from the jobs of the main branch.
_MAX_TOKENS = 1_000
_DIGEST_CHARACTERS = 32

# The rows are held: a group or a repository that is being removed gives nothing.
_GIVE_GROUPS = text("""
    INSERT INTO token_groups (token_id, group_id)
    SELECT :token_id, id FROM groups WHERE id = ANY(CAST(:ids AS bigint[])) FOR KEY SHARE
""")
_GIVE_GRANTS = text("""
    INSERT INTO token_grants (token_id, issuer_grant_id, ref)
    SELECT :token_id, issuer_grants.id, given.ref
    FROM unnest(CAST(:ids AS bigint[]), CAST(:refs AS text[])) AS given (id, ref)
    JOIN issuer_grants ON issuer_grants.id = given.id FOR KEY SHARE OF issuer_grants
""")
_HOLD_TOKEN = text("SELECT user_id, token_hash FROM tokens WHERE id = :token_id AND issuer_id IS NOT NULL FOR UPDATE")
_COUNT = text("""
    SELECT count(*) FROM tokens
    WHERE user_id = :user_id AND issuer_id IS NOT NULL AND name LIKE 'sign-in-%' AND expires_at > now()
        AND ARRAY(SELECT DISTINCT ref FROM token_grants WHERE token_id = tokens.id ORDER BY ref)
            = ARRAY(SELECT DISTINCT ref FROM token_grants WHERE token_id = :token_id ORDER BY ref)
""")
_COPY_TOKEN = text("""
    INSERT INTO tokens (user_id, name, token_hash, expires_at, issuer_id)
    SELECT user_id, :name, :hash, now() + make_interval(secs => :seconds), issuer_id FROM tokens WHERE id = :token_id
    RETURNING id
""")
_COPY_GROUPS = text("INSERT INTO token_groups SELECT :new, group_id FROM token_groups WHERE token_id = :token_id")
_COPY_GRANTS = text("""
    INSERT INTO token_grants (token_id, issuer_grant_id, ref)
    SELECT :new, issuer_grant_id, ref FROM token_grants WHERE token_id = :token_id
""")


class ExchangedToken(NamedTuple):
    """A token of ours that was given for a JSON Web Token."""

    secret: str
    valid_seconds: int
    user: TokenUser


class SignIn:
    """Accepts the JSON Web Tokens of issuers. The owner of `keys` closes them."""

    def __init__(self, database: Database, uses: TokenUses, keys: KeySets, *, token_seconds: int) -> None:
        self._database = database
        self._uses = uses
        self._keys = keys
        self._token_seconds = token_seconds

    async def find(self, credential: str, asker: Asker) -> TokenUser | None:
        """Return the user of a known token or of a JSON Web Token; None for any other, see `access.tokens.find_token`.

        A JSON Web Token is verified once; afterwards it is found by its hash, until it expires or is revoked. Raises
        the errors of `find_token` and of `KeySets.find`.
        """
        found = await find_token(self._database, self._uses, credential)
        if found is not None or credential.startswith(TOKEN_PREFIX) or not is_json_web_token(credential):
            return found
        try:
            await self._accept(credential, asker)
        except Unauthenticated:
            metrics.JSON_WEB_TOKENS.labels("refused").inc()
            raise
        metrics.JSON_WEB_TOKENS.labels("accepted").inc()
        return await find_token(self._database, self._uses, credential)

    async def _accept(self, token: str, asker: Asker) -> None:
        """Verify a token and record it. Raises `Unauthenticated` and the errors of `KeySets.find`."""
        unverified = parse(token)
        issuer = await self._database.run(partial(find_by_url, url=unverified.text("iss")))
        if issuer is None:
            raise refused("iss: the issuer of the JSON Web Token is not known here")
        algorithm, key_id = check_header(unverified)
        # Claims first: a token that can never be accepted makes no request to its issuer.
        now = time.time()
        expires_at = check_claims(unverified.claims, audiences=issuer.audiences, now=now)
        check_signature(token, await self._keys.find(issuer.url, key_id, algorithm, asker), algorithm)
        recording = partial(_record, issuer_id=issuer.id, token=token, claims=unverified.claims, expires_at=expires_at)
        with acting(unverified.text("sub"), f"issuer {issuer.name}"):
            await self._database.run(recording)

    async def exchange(self, credential: str, asker: Asker) -> ExchangedToken:
        """Return a new token with the user, the groups and the grants of a JSON Web Token; see `find`.

        It ends the one that was given for the same JSON Web Token before. It may be valid for longer than the JSON Web
        Token, but for no longer than `token_seconds`. Raises `ResourceExhausted` (RATE_LIMITED) if the user has too
        many of them; those of a program are counted by their refs.
        """
        user = None if credential.startswith(TOKEN_PREFIX) else await self.find(credential, asker)
        if user is None or user.issuer_id is None:
            raise refused("expected a JSON Web Token of an issuer")
        secret = new_secret()
        copying = partial(_copy, token_id=user.token_id, hashed=token_hash(secret), seconds=self._token_seconds)
        with acting(user.user.name, SIGN_IN):
            await self._database.run(copying)
        return ExchangedToken(secret, self._token_seconds, user)

    async def revoke(self, credential: str) -> User:
        """End a token that `exchange` gave and return its user.

        Raises `Unauthenticated` for an unknown token and as `find_token` does, and `InvalidArgument`
        (UNSUPPORTED_TOKEN_TYPE) for every other kind of credential: it stays valid, and nobody is told that it ended.
        """
        is_ours = credential.startswith(TOKEN_PREFIX)
        # The issuer decides how long it is valid, whether it was ever shown here or not.
        if not is_ours and is_json_web_token(credential):
            raise _unsupported()
        found = await find_token(self._database, self._uses, credential)
        if found is None:
            raise Unauthenticated(Reason.BAD_CREDENTIALS, "the token is not valid")
        if not is_ours or found.issuer_id is None:
            raise _unsupported()
        # Facades forget what they know at each deletion, also at one of nothing: a stranger causes none.
        with acting(found.user.name, SIGN_IN):
            await self._database.run(partial(revoke_sign_in_token, token_id=found.token_id))
        return found.user


def _unsupported() -> InvalidArgument:
    message = "token: unsupported_token_type: expected one that was given for a sign-in (/-/token)"
    return InvalidArgument(Reason.UNSUPPORTED_TOKEN_TYPE, message)


async def _record(
    connection: AsyncConnection, *, issuer_id: int, token: str, claims: Mapping[str, Any], expires_at: float
) -> None:
    """Add the row of a verified token, with its groups and grants. Raises `Unauthenticated` if it has no rights."""
    # Nobody changes the rules of the issuer before the token has what they give: see `table.find_issuer`.
    held = select(*Issuer.__table__.c).where(col(Issuer.id) == issuer_id).with_for_update(read=True)
    row = (await connection.execute(held)).mappings().one_or_none()
    if row is None:
        raise refused("iss: the issuer of the JSON Web Token is not known here any more")
    issuer = Issuer(**row)
    rights = await find_rights(connection, issuer, claims)
    user = await user_of(
        connection, subject=rights.subject, login=rights.login, provider=issuer.name, issuer_id=issuer.id
    )
    hashed = token_hash(token)
    statement = (
        insert(Token)
        .values(
            user_id=user.id,
            name=f"jwt-{hashed.hex()[:_DIGEST_CHARACTERS]}",
            token_hash=hashed,
            expires_at=datetime.fromtimestamp(expires_at, UTC),
            issuer_id=issuer.id,
        )
        # Another request with the same token may have been first.
        .on_conflict_do_nothing()
        .returning(col(Token.id))
    )
    token_id = (await connection.execute(statement)).scalar_one_or_none()
    if token_id is not None:
        await _give(connection, token_id, rights.group_ids, rights.grants)


async def _give(
    connection: AsyncConnection, token_id: int, group_ids: Sequence[int], grants: Sequence[tuple[int, str]]
) -> None:
    if group_ids:
        await connection.execute(_GIVE_GROUPS, {"token_id": token_id, "ids": list(group_ids)})
    if grants:
        ids, refs = ([grant[at] for grant in grants] for at in (0, 1))
        await connection.execute(_GIVE_GRANTS, {"token_id": token_id, "ids": ids, "refs": refs})


async def _copy(connection: AsyncConnection, *, token_id: int, hashed: bytes, seconds: int) -> None:
    """Add a token with the user, the groups and the grants of a JSON Web Token, valid for so many seconds.

    It takes the place of the one that was given for the same JSON Web Token before.
    """
    held = (await connection.execute(_HOLD_TOKEN, {"token_id": token_id})).one_or_none()
    if held is None:
        raise refused("expected a JSON Web Token of an issuer")
    user_id, jwt_hash = held
    name = f"{SIGN_IN_NAME}{jwt_hash.hex()[:_DIGEST_CHARACTERS]}"
    await revoke_token(connection, user_id=user_id, name=name)
    if await connection.scalar(_COUNT, {"token_id": token_id, "user_id": user_id}) >= _MAX_TOKENS:
        message = f"the user has {_MAX_TOKENS} tokens that were given for JSON Web Tokens"
        raise ResourceExhausted(Reason.RATE_LIMITED, message, retry_after="60")
    values = {"token_id": token_id, "hash": hashed, "name": name, "seconds": seconds}
    new = await connection.scalar(_COPY_TOKEN, values)
    for statement in (_COPY_GROUPS, _COPY_GRANTS):
        await connection.execute(statement, {"token_id": token_id, "new": new})
