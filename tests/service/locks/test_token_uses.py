"""The last use of tokens: noted beside the requests, and listed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import SecretStr
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import Reason, Unauthenticated
from tests.service.locks.conftest import Team
from tests.service.locks.issuers import authenticate
from tests.support.locks import RunningLocks, refused, running_locks
from tests.support.postgres import TestPostgres
from tests.support.waiting import until

# Facades ask about a token so often; with the four minutes for which a lock service does not write a use again this is
# less than the ten minutes that are promised.
_MAX_KEPT_SECONDS = 300


async def _tokens(service: RunningLocks, user_name: str) -> dict[str, admin.Token]:
    return {token.name: token for token in await service.tokens(user_name)}


def _is_used(service: RunningLocks, user_name: str, name: str = "laptop") -> Callable[[], Awaitable[bool]]:
    async def is_used() -> bool:
        return (await _tokens(service, user_name))[name].HasField("last_used_at")

    return is_used


async def _now(service: RunningLocks) -> datetime:
    [(now,)] = await service.execute("SELECT now()")
    return cast("datetime", now)


def _moment(message: Timestamp) -> datetime:
    return message.ToDatetime(tzinfo=UTC)


async def _row(service: RunningLocks, token_id: int) -> Sequence[Any]:
    """Return a row with the transaction that wrote it."""
    query = "SELECT CAST(xmin AS text), CAST(token_uses AS text) FROM token_uses WHERE token_id = :id"
    return await service.execute(query, id=token_id)


async def test_a_use_is_listed(service: RunningLocks, team: Team) -> None:
    """With its time, by the clock of Postgres; another token of the same user is another one."""
    used = await service.add_token(team.alice_name)
    await service.add_token(team.alice_name, "unused")
    assert not any(token.HasField("last_used_at") for token in (await _tokens(service, team.alice_name)).values())
    before = await _now(service)
    answer = await authenticate(service, used)
    assert answer.keep_seconds == _MAX_KEPT_SECONDS
    await until(_is_used(service, team.alice_name))
    tokens = await _tokens(service, team.alice_name)
    # The age is measured by another clock, which is not in step to the microsecond.
    last_use = _moment(tokens["laptop"].last_used_at) + timedelta(milliseconds=10)
    assert before <= last_use <= await _now(service) + timedelta(milliseconds=10)
    assert not tokens["unused"].HasField("last_used_at")


async def test_administration_is_a_use(service: RunningLocks) -> None:
    """The token of an administrator is one like others."""
    await until(_is_used(service, "admin", "local"))


async def test_what_is_done_by_a_token_later_is_one(service: RunningLocks, team: Team) -> None:
    """An action that was handed out is checked by the token's id; another's id uses nothing."""
    ids = {}
    for name in ("laptop", "ci"):
        request = admin.CreateTokenRequest(user_name=team.alice_name, name=name)
        ids[name] = (await service.admin_peer.call(service.admin.CreateToken, request)).token.id

    def check(user_id: int, name: str) -> Awaitable[access.CheckAccessResponse]:
        request = access.CheckAccessRequest(
            user_id=user_id, repository=team.repository, permission=access.PERMISSION_READ, token_id=ids[name]
        )
        return service.peer.call(service.access.CheckAccess, request)

    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await check(team.bob, "ci")
    assert 0 < (await check(team.alice, "laptop")).keep_seconds <= _MAX_KEPT_SECONDS
    await until(_is_used(service, team.alice_name))
    assert await _row(service, ids["ci"]) == []


async def test_what_is_refused_is_no_use(service: RunningLocks, team: Team) -> None:
    """An expired token that a job still shows is not one that somebody needs."""
    expired = await service.add_token(team.alice_name, "expired")
    await service.execute("UPDATE tokens SET expires_at = now() WHERE name = 'expired'")
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await authenticate(service, expired)
    await authenticate(service, await service.add_token(team.alice_name))
    await until(_is_used(service, team.alice_name))
    assert not (await _tokens(service, team.alice_name))["expired"].HasField("last_used_at")


async def test_many_uses_are_written_once(service: RunningLocks, team: Team) -> None:
    """Many uses of a token are one write and no change of access, so that facades do not drop their caches."""
    token = await service.add_token(team.alice_name)
    watched = await service.peer.call(service.access.WatchAccess, access.WatchAccessRequest())
    token_id = (await authenticate(service, token)).token_id
    await until(_is_used(service, team.alice_name))
    row = await _row(service, token_id)
    await asyncio.gather(*(authenticate(service, token) for _ in range(100)))
    # What was noted before this one is written with it at the latest.
    await authenticate(service, await service.add_token(team.bob_name))
    await until(_is_used(service, team.bob_name))
    assert await _row(service, token_id) == row
    assert await service.peer.call(service.access.WatchAccess, access.WatchAccessRequest()) == watched


async def test_a_token_that_is_used_can_end(service: RunningLocks, team: Team) -> None:
    """A used token can end, even by an older lock service that deletes its row and knows of no uses."""
    for name in ("laptop", "ci"):
        await authenticate(service, await service.add_token(team.alice_name, name))
        await until(_is_used(service, team.alice_name, name))
    await service.revoke_token(team.alice_name)
    await service.execute("DELETE FROM tokens WHERE user_id = :id", id=team.alice)
    assert await _tokens(service, team.alice_name) == {}
    again = await service.add_token(team.alice_name)
    assert not (await _tokens(service, team.alice_name))["laptop"].HasField("last_used_at")
    await authenticate(service, again)
    await until(_is_used(service, team.alice_name))


async def test_a_use_is_written_when_postgres_takes_it(
    database_url: SecretStr, tmp_path: Path, postgres: TestPostgres, capsys: pytest.CaptureFixture[str]
) -> None:
    """While it is read-only, no request fails or waits for it; afterwards the time is that of the use."""
    cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{}'"
    async with running_locks(database_url, tmp_path) as service:
        await service.add_user("alice")
        token = await service.add_token("alice")
        await postgres.execute(f"ALTER DATABASE {service.database} SET default_transaction_read_only = on")
        await postgres.execute(cut.format(service.database))
        await authenticate(service, token)
        said = ""

        def is_reported() -> bool:
            nonlocal said
            said += capsys.readouterr().out
            return "uses of tokens are not written" in said

        await until(is_reported)
        assert not (await _tokens(service, "alice"))["laptop"].HasField("last_used_at")
        # The age of the use is measured by another clock than the one of Postgres.
        await asyncio.sleep(0.1)
        used_before = await _now(service)
        await postgres.execute(f"ALTER DATABASE {service.database} RESET default_transaction_read_only")
        await postgres.execute(cut.format(service.database))
        await until(_is_used(service, "alice"))
        assert _moment((await _tokens(service, "alice"))["laptop"].last_used_at) < used_before
