"""Tokens that were given for a sign-in: their end by whoever has them, and their place in the list of tokens."""

import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import InvalidArgument, PermissionDenied, Reason, Unauthenticated
from services.database.engine import create_engine
from services.database.transactions import Database
from services.locks.models import SCHEMA
from tests.service.locks.conftest import Team
from tests.service.locks.issuers import add_issuer, authenticate
from tests.support.issuer import Issuer, running_issuer
from tests.support.locks import RunningLocks, refused
from tests.support.postgres import TestPostgres


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer of its own for each test."""
    with running_issuer() as running:
        yield running


@pytest.fixture
async def people(service: RunningLocks, issuer: Issuer, team: Team) -> str:
    """The name of the issuer, whose tokens are those of people."""
    name = f"sso-{team.repository_id}"
    await add_issuer(service, issuer, name, user_claim="preferred_username")
    return name


@pytest.fixture
async def database(service: RunningLocks) -> AsyncIterator[Database]:
    """The service's database."""
    database = Database(create_engine(service.database_url, schema=SCHEMA.name, pool_size=1))
    yield database
    await database.close()


async def _exchange(service: RunningLocks, token: str) -> access.ExchangeTokenResponse:
    request = access.ExchangeTokenRequest(token=token)
    response: access.ExchangeTokenResponse = await service.peer.call(service.access.ExchangeToken, request)
    return response


async def _revoke(service: RunningLocks, token: str) -> str:
    request = access.RevokeSignInTokenRequest(token=token)
    response: access.RevokeSignInTokenResponse = await service.peer.call(service.access.RevokeSignInToken, request)
    return response.user_name


async def _list(service: RunningLocks, user: str) -> list[admin.Token]:
    request = admin.ListTokensRequest(user_name=user)
    return list((await service.admin_peer.call(service.admin.ListTokens, request)).tokens)


async def _events(database: Database, subject: str) -> Sequence[Any]:
    statement = text("SELECT type, actor, source, before FROM audit_events WHERE subject = :subject ORDER BY id")
    async with database.engine.begin() as connection:
        return (await connection.execute(statement, {"subject": subject})).all()


async def _changes(service: RunningLocks) -> int:
    """Return how many changes of access the service has heard of."""
    return (await service.peer.call(service.access.WatchAccess, access.WatchAccessRequest(wait_seconds=0))).changes


def _name(json_web_token: str) -> str:
    """Return the name of the token that was given for it."""
    return f"sign-in-{hashlib.sha256(json_web_token.encode()).hexdigest()[:32]}"


@pytest.mark.usefixtures("people")
async def test_whoever_has_a_token_ends_it_and_no_other(
    service: RunningLocks, issuer: Issuer, team: Team, database: Database
) -> None:
    """The token of another sign-in stays, and so does the JSON Web Token; the audit log names the user."""
    token, other_token = (issuer.token(preferred_username=f"ada-{team.repository_id}", jti=jti) for jti in "ab")
    first, second = await _exchange(service, token), await _exchange(service, other_token)
    assert await _revoke(service, first.secret) == first.user_name
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
        await authenticate(service, first.secret)
    assert caught.value.metadata["revoked"] == _name(token)
    for other in (second.secret, token):
        assert (await authenticate(service, other)).user_name == first.user_name
    made, ended = await _events(database, f"token {first.user_name}/{_name(token)}")
    assert (made.type, ended.type) == ("org.towpath.token.created", "org.towpath.token.deleted")
    assert (ended.actor, ended.source) == (first.user_name, "sign-in")
    assert ended.before["user"] == first.user_name
    assert "token_hash" not in ended.before


@pytest.mark.usefixtures("people")
async def test_an_end_is_heard_of_and_a_second_one_is_not(service: RunningLocks, issuer: Issuer, team: Team) -> None:
    """A stranger's tokens, and those that have ended before, make no facade forget what it knows."""
    given = await _exchange(service, issuer.token(preferred_username=f"ben-{team.repository_id}"))
    before = await _changes(service)
    await _revoke(service, given.secret)
    after = await _changes(service)
    assert after > before
    for ended, metadata in ((given.secret, {"revoked"}), ("tp_unknown", set()), ("unknown", set()), ("", set())):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
            await _revoke(service, ended)
        assert caught.value.metadata.keys() == metadata
    assert await _changes(service) == after


@pytest.mark.usefixtures("people")
async def test_an_expired_token_says_so(
    service: RunningLocks, issuer: Issuer, team: Team, postgres: TestPostgres
) -> None:
    """There is nothing to end, and the list has it no more."""
    given = await _exchange(service, issuer.token(preferred_username=f"eva-{team.repository_id}"))
    older = f"UPDATE locks.tokens SET expires_at = now() WHERE user_id = {given.user_id}"  # noqa: S608 - our own id
    await postgres.execute(older, database=service.database)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
        await _revoke(service, given.secret)
    assert "expired" in caught.value.metadata
    assert await _list(service, given.user_name) == []


@pytest.mark.usefixtures("people")
async def test_other_credentials_stay_and_are_no_success(service: RunningLocks, issuer: Issuer, team: Team) -> None:
    """A token of an administrator's making, and JSON Web Tokens, shown before or never, are refused."""
    made = await service.add_token(team.alice_name)
    shown = issuer.token(preferred_username=f"cleo-{team.repository_id}")
    await authenticate(service, shown)
    new = issuer.token(preferred_username=f"cleo-{team.repository_id}", jti="new")
    for token in (made, service.admin_token, shown, new):
        with refused(InvalidArgument, Reason.UNSUPPORTED_TOKEN_TYPE):
            await _revoke(service, token)
        assert (await authenticate(service, token)).user_name


async def test_the_list_has_sign_ins_and_no_json_web_tokens(
    service: RunningLocks, issuer: Issuer, people: str, team: Team, database: Database
) -> None:
    """An administrator sees what there is to revoke, with the issuer, and the revocation is recorded."""
    token = issuer.token(preferred_username=f"dan-{team.repository_id}")
    given = await _exchange(service, token)
    await service.add_token(given.user_name)
    listed = await _list(service, given.user_name)
    assert [(each.name, each.issuer) for each in listed] == [("laptop", ""), (_name(token), people)]
    revoke = admin.RevokeTokenRequest(user_name=given.user_name, name=_name(token))
    await service.admin_peer.call(service.admin.RevokeToken, revoke)
    assert [token.name for token in await _list(service, given.user_name)] == ["laptop"]
    ended = (await _events(database, f"token {given.user_name}/{_name(token)}"))[-1]
    assert (ended.type, ended.actor, ended.source) == ("org.towpath.token.deleted", "admin", "admin")
    # The trigger records a token of an administrator's making, once.
    revoke.name = "laptop"
    await service.admin_peer.call(service.admin.RevokeToken, revoke)
    types = [event.type for event in await _events(database, f"token {given.user_name}/laptop")]
    assert types == ["org.towpath.token.created", "org.towpath.token.deleted"]


@pytest.mark.usefixtures("people")
async def test_no_administrator_by_a_json_web_token(
    service: RunningLocks, issuer: Issuer, team: Team, postgres: TestPostgres
) -> None:
    """Other services of the issuer's see it too; the token that is given for it here administers."""
    token = issuer.token(preferred_username=f"chief-{team.repository_id}")
    given = (await _exchange(service, token)).secret
    known = await authenticate(service, token)
    await postgres.execute(
        f"UPDATE locks.users SET administrator = true WHERE id = {known.user_id}",  # noqa: S608 - a number
        database=service.database,
    )
    assert not (await authenticate(service, token)).administrator
    assert (await authenticate(service, given)).administrator
    listing = admin.ListUsersRequest(limit=1)
    await service.peer.call(service.admin.ListUsers, listing, secret=SecretStr(given))
    with refused(PermissionDenied, Reason.ACCESS_DENIED):
        await service.peer.call(service.admin.ListUsers, listing, secret=SecretStr(token))
