"""A token that was revoked opens nothing, and whoever shows it is told which it was."""

import hashlib

from pydantic import SecretStr
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.access.v1.admin_service_pb2_grpc import AdminServiceStub

from services.common.errors import Reason, Unauthenticated
from services.common.rpc.client import ServiceClient
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused
from tests.support.postgres import TestPostgres
from tests.support.waiting import STEP_SECONDS

UNKNOWN: tuple[str, dict[str, str]] = ("the token is not valid", {})
REVOKED = ("the token laptop was revoked", {"revoked": "laptop"})


async def _refusal(service: RunningLocks, token: str) -> tuple[str, dict[str, str]]:
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
        await service.peer.call(service.access.Authenticate, access.AuthenticateRequest(token=token))
    return caught.value.message, caught.value.metadata


async def _revoke(service: RunningLocks, user_name: str, name: str = "laptop") -> None:
    request = admin.RevokeTokenRequest(user_name=user_name, name=name)
    await service.admin_peer.call(service.admin.RevokeToken, request)


async def test_who_shows_a_revoked_token_is_told_so(service: RunningLocks, team: Team) -> None:
    """Only a caller with the whole revoked token learns of its revocation, even if a new token has its name."""
    token = await service.add_token(team.alice_name)
    await _revoke(service, team.alice_name)
    assert await _refusal(service, token) == REVOKED
    again = await service.add_token(team.alice_name)
    assert await _refusal(service, token) == REVOKED
    for other in (token[:-1], f"{token}A", token.swapcase(), ""):
        assert await _refusal(service, other) == UNKNOWN
    answer = await service.peer.call(service.access.Authenticate, access.AuthenticateRequest(token=again))
    assert answer.user_id == team.alice


async def test_a_revoked_token_does_nothing(service: RunningLocks, team: Team, postgres: TestPostgres) -> None:
    """Neither that of an administrator, nor the hash that is kept of it."""
    name = f"administrator-{team.alice}"
    await service.add_user(name, administrator=True)
    token = await service.add_token(name)
    hashed = hashlib.sha256(token.encode()).digest()
    await _revoke(service, name)
    for shown in (token, hashed.hex(), f"tp_{hashed.hex()}"):
        peer = ServiceClient(service.address, deadline=STEP_SECONDS, secret=SecretStr(shown))
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await peer.call(AdminServiceStub(peer.channel).ListUsers, admin.ListUsersRequest())
        await peer.close()
    request = admin.ListTokensRequest(user_name=name)
    assert not (await service.admin_peer.call(service.admin.ListTokens, request)).tokens
    rows = await postgres.execute("SELECT t.*::text FROM locks.revoked_tokens AS t", database=service.database)
    assert hashed.hex() in rows
    assert token not in rows


async def test_the_tokens_of_a_removed_user_are_unknown(service: RunningLocks, team: Team) -> None:
    """Nothing is kept of somebody who is gone: neither of tokens that were left, nor of those revoked before."""
    revoked, left = [await service.add_token(team.bob_name, name) for name in ("laptop", "ci")]
    await _revoke(service, team.bob_name)
    assert await _refusal(service, revoked) == REVOKED
    await service.admin_peer.call(service.admin.DeleteUser, admin.DeleteUserRequest(name=team.bob_name))
    assert [await _refusal(service, token) for token in (revoked, left)] == [UNKNOWN, UNKNOWN]


async def test_what_was_revoked_long_ago_is_forgotten(
    service: RunningLocks, team: Team, postgres: TestPostgres
) -> None:
    """With a later revocation, so that what is kept has an end."""
    old, newer, newest = [await service.add_token(team.alice_name, name) for name in ("old", "laptop", "ci")]
    for name, days in (("old", 91), ("laptop", 89)):
        await _revoke(service, team.alice_name, name)
        statement = "UPDATE locks.revoked_tokens SET revoked_at = now() - interval '{} days' WHERE name = '{}'"
        await postgres.execute(statement.format(days, name), database=service.database)
    await _revoke(service, team.alice_name, "ci")
    assert await _refusal(service, old) == UNKNOWN
    assert await _refusal(service, newer) == REVOKED
    assert (await _refusal(service, newest))[1] == {"revoked": "ci"}


async def test_a_secret_that_is_given_again_works_again(
    service: RunningLocks, team: Team, postgres: TestPostgres
) -> None:
    """As the one of the first administrator, which is a setting; and it can be revoked again."""
    token = await service.add_token(team.alice_name)
    await _revoke(service, team.alice_name)
    insert = "INSERT INTO locks.tokens (user_id, name, token_hash) VALUES ({}, 'again', sha256('{}'))"
    await postgres.execute(insert.format(team.alice, token), database=service.database)
    answer = await service.peer.call(service.access.Authenticate, access.AuthenticateRequest(token=token))
    assert answer.user_id == team.alice
    await _revoke(service, team.alice_name, "again")
    assert (await _refusal(service, token))[1] == {"revoked": "again"}
