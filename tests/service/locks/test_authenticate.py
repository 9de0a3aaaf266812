"""Authenticate, and the tokens that it knows (protocol: "Authentication")."""

import time

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, Reason, Unauthenticated
from tests.service.locks.conftest import Team
from tests.service.locks.issuers import authenticate
from tests.support.locks import RunningLocks, refused


@pytest.mark.parametrize("token", ["", " ", "tp_", "tp_" + "A" * 43, "\0", "é" * 10_000, "' OR ''='"])
async def test_other_tokens_are_refused(service: RunningLocks, token: str) -> None:
    """Whatever it looks like, the answer is the same."""
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await authenticate(service, token)


async def test_an_expired_token_is_told_from_a_wrong_one(service: RunningLocks, team: Team) -> None:
    """Whoever shows it was given it, and gets a new one; that of a removed user is as unknown as any."""
    expires_at = Timestamp(seconds=int(time.time()) + 3600)
    request = admin.CreateTokenRequest(user_name=team.alice_name, name="short", expires_at=expires_at)
    expired = (await service.admin_peer.call(service.admin.CreateToken, request)).secret
    await authenticate(service, expired)
    await service.execute("UPDATE tokens SET expires_at = expires_at - interval '1 hour' WHERE name = 'short'")
    removed = await service.add_token(team.bob_name)
    await service.delete_user(team.bob_name)
    messages = []
    for token in ("tp_unknown", removed, expired):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
            await authenticate(service, token)
        messages.append((caught.value.message, caught.value.metadata))
    assert messages == [("the token is not valid", {})] * 2 + [("the token has expired", {"expired": "true"})]
    assert [token.name for token in await service.tokens(team.alice_name)] == ["short"]


async def test_secrets_are_not_stored(service: RunningLocks, team: Team) -> None:
    """The table has only a token's hash and no part of its secret, so that a stolen table opens nothing (trap-25)."""
    secret = await service.add_token(team.alice_name)
    rows = str(await service.execute("SELECT t.*::text FROM tokens AS t"))
    assert team.alice_name not in rows
    assert "laptop" in rows
    assert secret not in rows
    assert secret.removeprefix("tp_")[:12] not in rows
    assert secret.encode().hex() not in rows
    hashed = "SELECT count(*) FROM tokens WHERE token_hash = sha256(CAST(:secret AS bytea))"
    assert await service.execute(hashed, secret=secret.encode()) == [(1,)]


async def test_tokens_are_named(service: RunningLocks, team: Team) -> None:
    """A user's tokens have different names, another user's may have the same; the list tells no secret."""
    secrets = [await service.add_token(team.alice_name, name) for name in ("laptop", "ci")]
    await service.add_token(team.bob_name, "ci")
    with refused(AlreadyExists, Reason.TOKEN_EXISTS):
        await service.add_token(team.alice_name, "ci")
    tokens = await service.tokens(team.alice_name)
    assert [(token.name, token.user_name) for token in tokens] == [
        ("ci", team.alice_name),
        ("laptop", team.alice_name),
    ]
    assert not any(token.HasField("expires_at") for token in tokens)
    assert not any(secret in str(tokens) for secret in secrets)
    assert (await service.revoke_token(team.alice_name, "ci")).name == "ci"
    with refused(NotFound, Reason.TOKEN_NOT_FOUND):
        await service.revoke_token(team.alice_name, "ci")
    await authenticate(service, secrets[0])


async def test_an_expiry_is_kept(service: RunningLocks, team: Team) -> None:
    """The expiry is as asked."""
    expires_at = Timestamp(seconds=int(time.time()) + 3600)
    request = admin.CreateTokenRequest(user_name=team.alice_name, name="ci", expires_at=expires_at)
    assert (await service.admin_peer.call(service.admin.CreateToken, request)).token.expires_at == expires_at
    assert (await service.tokens(team.alice_name))[0].expires_at == expires_at


@pytest.mark.parametrize("seconds", [-62135596800, 0, 1_000_000_000, 253402300800, 2**62])
async def test_malformed_expiries(service: RunningLocks, team: Team, seconds: int) -> None:
    """An expiry in the past, or beyond the calendar, is refused."""
    request = admin.CreateTokenRequest(user_name=team.alice_name, name="ci", expires_at=Timestamp(seconds=seconds))
    with refused(InvalidArgument, Reason.INVALID_FIELD, "expires_at: "):
        await service.admin_peer.call(service.admin.CreateToken, request)


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
