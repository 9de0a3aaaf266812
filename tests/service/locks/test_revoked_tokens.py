"""A token that was revoked opens nothing, and whoever shows it is told which it was."""

import hashlib

from pydantic import SecretStr
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import Reason, Unauthenticated
from tests.service.locks.conftest import Team
from tests.service.locks.issuers import authenticate
from tests.support.locks import RunningLocks, refused

UNKNOWN: tuple[str, dict[str, str]] = ("the token is not valid", {})
REVOKED = ("the token laptop was revoked", {"revoked": "laptop"})


async def _refusal(service: RunningLocks, token: str) -> tuple[str, dict[str, str]]:
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
        await authenticate(service, token)
    return caught.value.message, caught.value.metadata


async def test_who_shows_a_revoked_token_is_told_so(service: RunningLocks, team: Team) -> None:
    """Only a caller with the whole revoked token learns of its revocation, even if a new token has its name."""
    token = await service.add_token(team.alice_name)
    await service.revoke_token(team.alice_name)
    assert await _refusal(service, token) == REVOKED
    again = await service.add_token(team.alice_name)
    assert await _refusal(service, token) == REVOKED
    for other in (token[:-1], f"{token}A", token.swapcase(), ""):
        assert await _refusal(service, other) == UNKNOWN
    assert (await authenticate(service, again)).user_id == team.alice


async def test_a_revoked_token_does_nothing(service: RunningLocks, team: Team) -> None:
    """Neither that of an administrator, which AdminService has admitted before, nor the hash that is kept of it."""

    async def list_users(shown: str) -> None:
        await service.peer.call(service.admin.ListUsers, admin.ListUsersRequest(), secret=SecretStr(shown))

    name = f"administrator-{team.alice}"
    await service.add_user(name, administrator=True)
    token = await service.add_token(name)
    await list_users(token)
    hashed = hashlib.sha256(token.encode()).digest()
    await service.revoke_token(name)
    for shown in (token, hashed.hex(), f"tp_{hashed.hex()}"):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await list_users(shown)
    assert not await service.tokens(name)
    rows = str(await service.execute("SELECT t.*::text FROM revoked_tokens AS t"))
    assert hashed.hex() in rows
    assert token not in rows


async def test_the_tokens_of_a_removed_user_are_unknown(service: RunningLocks, team: Team) -> None:
    """Nothing is kept of somebody who is gone: neither of tokens that were left, nor of those revoked before."""
    revoked, left = [await service.add_token(team.bob_name, name) for name in ("laptop", "ci")]
    await service.revoke_token(team.bob_name)
    assert await _refusal(service, revoked) == REVOKED
    await service.delete_user(team.bob_name)
    assert [await _refusal(service, token) for token in (revoked, left)] == [UNKNOWN, UNKNOWN]


async def test_what_was_revoked_long_ago_is_forgotten(service: RunningLocks, team: Team) -> None:
    """With a later revocation, so that what is kept has an end."""
    old, newer, newest = [await service.add_token(team.alice_name, name) for name in ("old", "laptop", "ci")]
    for name, days in (("old", 91), ("laptop", 89)):
        await service.revoke_token(team.alice_name, name)
        statement = "UPDATE revoked_tokens SET revoked_at = now() - make_interval(days => :days) WHERE name = :name"
        await service.execute(statement, days=days, name=name)
    await service.revoke_token(team.alice_name, "ci")
    assert await _refusal(service, old) == UNKNOWN
    assert await _refusal(service, newer) == REVOKED
    assert (await _refusal(service, newest))[1] == {"revoked": "ci"}


async def test_a_secret_that_is_given_again_works_again(service: RunningLocks, team: Team) -> None:
    """As the one of the first administrator, which is a setting; and it can be revoked again."""
    token = await service.add_token(team.alice_name)
    await service.revoke_token(team.alice_name)
    insert = "INSERT INTO tokens (user_id, name, token_hash) VALUES (:user_id, 'again', sha256(CAST(:token AS bytea)))"
    await service.execute(insert, user_id=team.alice, token=token.encode())
    assert (await authenticate(service, token)).user_id == team.alice
    await service.revoke_token(team.alice_name, "again")
    assert (await _refusal(service, token))[1] == {"revoked": "again"}
