"""Tokens that were given for a sign-in: their end by whoever has them, and their place in the list of tokens."""

import hashlib

import pytest
from pydantic import SecretStr
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import InvalidArgument, PermissionDenied, Reason, Unauthenticated
from tests.service.locks.conftest import Team
from tests.service.locks.issuers import add_issuer, authenticate, exchange, token_events
from tests.support.issuer import Issuer
from tests.support.locks import RunningLocks, refused


@pytest.fixture
async def people(service: RunningLocks, issuer: Issuer, team: Team) -> str:
    """The name of the issuer, whose tokens are those of people."""
    name = f"sso-{team.repository_id}"
    await add_issuer(service, issuer, name, user_claim="preferred_username")
    return name


async def _revoke(service: RunningLocks, token: str) -> str:
    request = access.RevokeSignInTokenRequest(token=token)
    return (await service.peer.call(service.access.RevokeSignInToken, request)).user_name


async def _changes(service: RunningLocks) -> int:
    """Return how many changes of access the service has heard of."""
    return (await service.peer.call(service.access.WatchAccess, access.WatchAccessRequest(wait_seconds=0))).changes


def _name(json_web_token: str) -> str:
    """Return the name of the token that was given for it."""
    return f"sign-in-{hashlib.sha256(json_web_token.encode()).hexdigest()[:32]}"


@pytest.mark.usefixtures("people")
async def test_whoever_has_a_token_ends_it_and_no_other(service: RunningLocks, issuer: Issuer, team: Team) -> None:
    """The token of another sign-in stays, and so does the JSON Web Token; the audit log names the user."""
    token, other_token = (issuer.token(preferred_username=f"ada-{team.repository_id}", jti=jti) for jti in "ab")
    first, second = await exchange(service, token), await exchange(service, other_token)
    assert await _revoke(service, first.secret) == first.user_name
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
        await authenticate(service, first.secret)
    assert caught.value.metadata["revoked"] == _name(token)
    for other in (second.secret, token):
        assert (await authenticate(service, other)).user_name == first.user_name
    made, ended = await token_events(service, f"{first.user_name}/{_name(token)}")
    assert (made.type, ended.type) == ("org.towpath.token.created", "org.towpath.token.deleted")
    assert (ended.actor, ended.source) == (first.user_name, "sign-in")
    assert ended.before["user"] == first.user_name
    assert "token_hash" not in ended.before


@pytest.mark.usefixtures("people")
async def test_an_end_is_heard_of_and_a_second_one_is_not(service: RunningLocks, issuer: Issuer, team: Team) -> None:
    """A stranger's tokens, and those that have ended before, make no facade forget what it knows."""
    given = await exchange(service, issuer.token(preferred_username=f"ben-{team.repository_id}"))
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
async def test_an_expired_token_says_so(service: RunningLocks, issuer: Issuer, team: Team) -> None:
    """There is nothing to end, and the list has it no more."""
    given = await exchange(service, issuer.token(preferred_username=f"eva-{team.repository_id}"))
    await service.execute("UPDATE tokens SET expires_at = now() WHERE user_id = :id", id=given.user_id)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
        await _revoke(service, given.secret)
    assert "expired" in caught.value.metadata
    assert not await service.tokens(given.user_name)


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
    service: RunningLocks, issuer: Issuer, people: str, team: Team
) -> None:
    """An administrator sees what there is to revoke, with the issuer, and the revocation is recorded."""
    token = issuer.token(preferred_username=f"dan-{team.repository_id}")
    given = await exchange(service, token)
    await service.add_token(given.user_name)
    listed = await service.tokens(given.user_name)
    assert [(each.name, each.issuer) for each in listed] == [("laptop", ""), (_name(token), people)]
    await service.revoke_token(given.user_name, _name(token))
    assert [token.name for token in await service.tokens(given.user_name)] == ["laptop"]
    ended = (await token_events(service, f"{given.user_name}/{_name(token)}"))[-1]
    assert (ended.type, ended.actor, ended.source) == ("org.towpath.token.deleted", "admin", "admin")
    # The trigger records a token of an administrator's making, once.
    await service.revoke_token(given.user_name)
    types = [event.type for event in await token_events(service, f"{given.user_name}/laptop")]
    assert types == ["org.towpath.token.created", "org.towpath.token.deleted"]


@pytest.mark.usefixtures("people")
async def test_no_administrator_by_a_json_web_token(service: RunningLocks, issuer: Issuer, team: Team) -> None:
    """Other services of the issuer's see it too; the token that is given for it here administers."""
    token = issuer.token(preferred_username=f"chief-{team.repository_id}")
    given = (await exchange(service, token)).secret
    known = await authenticate(service, token)
    await service.execute("UPDATE users SET administrator = true WHERE id = :id", id=known.user_id)
    assert not (await authenticate(service, token)).administrator
    assert (await authenticate(service, given)).administrator
    listing = admin.ListUsersRequest(limit=1)
    await service.peer.call(service.admin.ListUsers, listing, secret=SecretStr(given))
    with refused(PermissionDenied, Reason.ACCESS_DENIED):
        await service.peer.call(service.admin.ListUsers, listing, secret=SecretStr(token))
