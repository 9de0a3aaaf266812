"""Authenticate, and the tokens that it knows (protocol: "Authentication")."""

import time

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, Reason, Unauthenticated
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused
from tests.support.postgres import TestPostgres


async def _authenticate(service: RunningLocks, token: str) -> access.AuthenticateResponse:
    return await service.peer.call(service.access.Authenticate, access.AuthenticateRequest(token=token))


async def _revoke(service: RunningLocks, user_name: str, name: str = "laptop") -> admin.Token:
    request = admin.RevokeTokenRequest(user_name=user_name, name=name)
    return (await service.admin_peer.call(service.admin.RevokeToken, request)).token


async def _list(service: RunningLocks, user_name: str) -> list[admin.Token]:
    request = admin.ListTokensRequest(user_name=user_name)
    return list((await service.admin_peer.call(service.admin.ListTokens, request)).tokens)


async def test_a_token_is_its_users(service: RunningLocks, team: Team) -> None:
    """A token tells the user's id and name; every user's is its own."""
    for name, user_id in ((team.alice_name, team.alice), (team.bob_name, team.bob)):
        answer = await _authenticate(service, await service.add_token(name))
        assert (answer.user_id, answer.user_name) == (user_id, name)


@pytest.mark.parametrize("token", ["", " ", "tp_", "tp_" + "A" * 43, "\0", "é" * 10_000, "' OR ''='"])
async def test_other_tokens_are_refused(service: RunningLocks, token: str) -> None:
    """Whatever it looks like, the answer is the same."""
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await _authenticate(service, token)


async def test_an_expired_token_is_told_from_a_wrong_one(
    service: RunningLocks, team: Team, postgres: TestPostgres
) -> None:
    """Whoever shows it was given it, and gets a new one; that of a removed user is as unknown as any."""
    expires_at = Timestamp(seconds=int(time.time()) + 3600)
    request = admin.CreateTokenRequest(user_name=team.alice_name, name="short", expires_at=expires_at)
    expired = (await service.admin_peer.call(service.admin.CreateToken, request)).secret
    await _authenticate(service, expired)
    an_hour_later = "UPDATE locks.tokens SET expires_at = expires_at - interval '1 hour' WHERE name = 'short'"
    await postgres.execute(an_hour_later, database=service.database)
    removed = await service.add_token(team.bob_name)
    await service.admin_peer.call(service.admin.DeleteUser, admin.DeleteUserRequest(name=team.bob_name))
    messages = []
    for token in ("tp_unknown", removed, expired):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
            await _authenticate(service, token)
        messages.append((caught.value.message, caught.value.metadata))
    assert messages == [("the token is not valid", {})] * 2 + [("the token has expired", {"expired": "true"})]
    assert [token.name for token in await _list(service, team.alice_name)] == ["short"]


async def test_secrets_are_not_stored(service: RunningLocks, team: Team, postgres: TestPostgres) -> None:
    """The table has only a token's hash and no part of its secret, so that a stolen table opens nothing (trap-25)."""
    secret = await service.add_token(team.alice_name)
    rows = await postgres.execute("SELECT t.*::text FROM locks.tokens AS t", database=service.database)
    assert team.alice_name not in rows
    assert "laptop" in rows
    assert secret not in rows
    assert secret.removeprefix("tp_")[:12] not in rows
    assert secret.encode().hex() not in rows
    hashed = await postgres.execute(
        f"SELECT count(*) FROM locks.tokens WHERE token_hash = sha256('{secret}')",  # noqa: S608 - a secret of our own
        database=service.database,
    )
    assert hashed == "1"


async def test_tokens_are_named(service: RunningLocks, team: Team) -> None:
    """A user's tokens have different names, another user's may have the same; the list tells no secret."""
    secrets = [await service.add_token(team.alice_name, name) for name in ("laptop", "ci")]
    await service.add_token(team.bob_name, "ci")
    with refused(AlreadyExists, Reason.TOKEN_EXISTS):
        await service.add_token(team.alice_name, "ci")
    tokens = await _list(service, team.alice_name)
    assert [(token.name, token.user_name) for token in tokens] == [
        ("ci", team.alice_name),
        ("laptop", team.alice_name),
    ]
    assert not any(token.HasField("expires_at") for token in tokens)
    assert not any(secret in str(tokens) for secret in secrets)
    assert (await _revoke(service, team.alice_name, "ci")).name == "ci"
    with refused(NotFound, Reason.TOKEN_NOT_FOUND):
        await _revoke(service, team.alice_name, "ci")
    await _authenticate(service, secrets[0])


async def test_an_expiry_is_kept(service: RunningLocks, team: Team) -> None:
    """The expiry is as asked."""
    expires_at = Timestamp(seconds=int(time.time()) + 3600)
    request = admin.CreateTokenRequest(user_name=team.alice_name, name="ci", expires_at=expires_at)
    assert (await service.admin_peer.call(service.admin.CreateToken, request)).token.expires_at == expires_at
    assert (await _list(service, team.alice_name))[0].expires_at == expires_at


@pytest.mark.parametrize("seconds", [-62135596800, 0, 1_000_000_000, 253402300800, 2**62])
async def test_malformed_expiries(service: RunningLocks, team: Team, seconds: int) -> None:
    """An expiry in the past, or beyond the calendar, is refused."""
    request = admin.CreateTokenRequest(user_name=team.alice_name, name="ci", expires_at=Timestamp(seconds=seconds))
    with refused(InvalidArgument, Reason.INVALID_FIELD) as caught:
        await service.admin_peer.call(service.admin.CreateToken, request)
    assert caught.value.message.startswith("expires_at: ")


async def test_unknown_users_and_malformed_names(service: RunningLocks, team: Team) -> None:
    """Each of the three calls says what is wrong."""
    for request, method in (
        (admin.CreateTokenRequest(user_name="nobody", name="x"), service.admin.CreateToken),
        (admin.ListTokensRequest(user_name="nobody"), service.admin.ListTokens),
        (admin.RevokeTokenRequest(user_name="nobody", name="x"), service.admin.RevokeToken),
    ):
        with refused(NotFound, Reason.USER_NOT_FOUND):
            await service.admin_peer.call(method, request)
    for request, method in (
        (admin.CreateTokenRequest(user_name=team.alice_name, name="a b"), service.admin.CreateToken),
        (admin.CreateTokenRequest(user_name="\0", name="x"), service.admin.CreateToken),
        (admin.ListTokensRequest(user_name=""), service.admin.ListTokens),
        (admin.RevokeTokenRequest(user_name=team.alice_name, name="\0"), service.admin.RevokeToken),
    ):
        with refused(InvalidArgument, Reason.INVALID_FIELD):
            await service.admin_peer.call(method, request)
