"""Explanations of refusals under floods: storage is bounded, and users still find why they were refused."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import NotFound, ServiceError, Unauthenticated
from services.common.observability import request_id
from services.locks.access import refusals
from tests.service.locks.conftest import Team, delete_old, new_team
from tests.support.locks import RunningLocks, running_locks
from tests.support.postgres import TestPostgres
from tests.support.waiting import until

_TEXTS = ("request_id", "reason", "message", "rule", "source", "user_name", "repository", "permission", "ref")


BURST, BURST_OF_USER = 60, 20


@pytest.fixture
async def flooded(
    postgres: TestPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[RunningLocks, Team]]:
    """A lock service that records a tenth of the usual refusals, because its rates are for all of its callers."""
    monkeypatch.setattr(refusals, "_BURST", float(BURST))
    monkeypatch.setattr(refusals, "_BURST_OF_USER", float(BURST_OF_USER))
    async with running_locks(await postgres.create_database(), tmp_path) as service:
        yield service, await new_team(service)


async def ask(service: RunningLocks, call: Any, request: Any, name: str) -> ServiceError:  # noqa: ANN401 - any call
    """Make a call that is refused, under a request id, and return the error."""
    request_id.adopt(name)
    try:
        with pytest.raises(ServiceError) as caught:
            await service.peer.call(call, request)
    finally:
        request_id.adopt(None)
    return caught.value


async def explanation(service: RunningLocks, name: str) -> Sequence[admin.RefusalRecord]:
    """Return why a request was refused, once it is known."""
    found: list[admin.RefusalRecord] = []

    async def known() -> bool:
        request = admin.ExplainRequestRequest(request_id=name)
        try:
            found[:] = (await service.admin_peer.call(service.admin.ExplainRequest, request)).refusals
        except NotFound:
            return False
        return True

    await until(known)
    return found


def _check(team: Team, user: int, *, repository: str = "", ref: str = "") -> access.CheckAccessRequest:
    wanted = repository or team.repository
    return access.CheckAccessRequest(user_id=user, repository=wanted, ref=ref, permission=access.PERMISSION_WRITE)


async def test_a_flood_of_strangers_takes_nothing_from_users(flooded: tuple[RunningLocks, Team]) -> None:
    """Neither from callers without a grant, nor from the owner of a token that was revoked."""
    service, team = flooded
    secret = await service.add_token(team.alice_name)
    await service.revoke_token(team.alice_name)
    outsider = await service.add_user(f"outsider-{team.repository_id}")

    async def flood(number: int) -> None:
        anonymous = _check(team, 0, repository=f"no/such-{number}", ref="refs/heads/" + "\N{SNOWMAN}" * 20_000)
        await ask(service, service.access.CheckAccess, anonymous, "flood")
        unknown = access.AuthenticateRequest(token=f"tp_{number}" + "x" * 10_000)
        await ask(service, service.access.Authenticate, unknown, "flood")

    for start in range(0, 2 * BURST, 40):
        await asyncio.gather(*map(flood, range(start, start + 40)))
    await ask(service, service.access.Authenticate, access.AuthenticateRequest(token=secret), "honest-owner")
    await ask(service, service.access.CheckAccess, _check(team, outsider), "honest-outsider")

    [owner] = await explanation(service, "honest-owner")
    assert (owner.user_name, owner.source) == (team.alice_name, "token laptop")
    [stranger] = await explanation(service, "honest-outsider")
    assert stranger.user_name == f"outsider-{team.repository_id}"
    stored = await service.execute("SELECT source, count(*) FROM refusals WHERE request_id = 'flood' GROUP BY 1")
    counts = {source: count for source, count in stored}  # noqa: C416 - rows are no pairs for mypy
    assert counts.keys() == {"anonymous", "unknown"}, "one kind of stranger takes nothing from the other"
    assert all(BURST <= count < 2 * BURST for count in counts.values())
    widest = ", ".join(f"max(octet_length({name}))" for name in _TEXTS)
    [sizes] = await service.execute(f"SELECT {widest} FROM refusals")  # noqa: S608 - names of columns
    assert max(sizes) <= 500


async def test_a_flood_of_one_user_takes_nothing_from_others(flooded: tuple[RunningLocks, Team]) -> None:
    """A program that repeats what it may not is no reason for others to know less."""
    service, team = flooded
    loud = await service.add_user(f"loud-{team.repository_id}")
    quiet = await service.add_user(f"quiet-{team.repository_id}")
    flood = [ask(service, service.access.CheckAccess, _check(team, loud), "loud") for _ in range(3 * BURST_OF_USER)]
    await asyncio.gather(*flood)
    await ask(service, service.access.CheckAccess, _check(team, quiet), "quiet")
    [record] = await explanation(service, "quiet")
    assert record.user_name == f"quiet-{team.repository_id}"
    [(count,)] = await service.execute("SELECT count(*) FROM refusals WHERE request_id = 'loud'")
    assert BURST_OF_USER <= count < 2 * BURST_OF_USER


async def test_the_request_id_of_another_hides_nothing(service: RunningLocks, team: Team) -> None:
    """Anybody can send it, also before the request that it belongs to."""
    borrowed = f"borrowed-{team.repository_id}"
    outsider = await service.add_user(f"outsider-{team.repository_id}")
    refusal = access.RecordRefusalsRequest.Refusal(request_id=borrowed, reason="BAD_CREDENTIALS")
    await service.peer.call(service.access.RecordRefusals, access.RecordRefusalsRequest(refusals=[refusal] * 30))
    await ask(service, service.access.CheckAccess, _check(team, outsider), borrowed)

    async def is_told() -> bool:
        return f"outsider-{team.repository_id}" in [record.user_name for record in await explanation(service, borrowed)]

    await until(is_told)


async def test_an_exchange_that_is_refused_is_explained(service: RunningLocks) -> None:
    """As every other use of a credential, and without it."""
    request = access.ExchangeTokenRequest(token="no-json-web-token-but-a-secret")
    error = await ask(service, service.access.ExchangeToken, request, "exchange")
    assert isinstance(error, Unauthenticated)
    [record] = await explanation(service, "exchange")
    assert record.rule == error.message
    assert "secret" not in str(record)


async def test_a_session_over_ssh_is_named_by_its_key(service: RunningLocks, team: Team) -> None:
    """The name of its token is a hash, and tells nobody anything."""
    outsider = f"outsider-{team.repository_id}"
    user = await service.add_user(outsider)
    line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "B" * 43
    adding = admin.AddSshKeyRequest(user_name=outsider, name="desktop", public_key=line)
    key = (await service.admin_peer.call(service.admin.AddSshKey, adding)).key
    issuing = access.IssueSessionTokenRequest(fingerprint=key.fingerprint, repository=team.repository, valid_seconds=60)
    issued = await service.peer.call(service.access.IssueSessionToken, issuing)
    caller = await service.peer.call(service.access.Authenticate, access.AuthenticateRequest(token=issued.token))
    request = _check(team, user)
    request.token_id = caller.token_id
    await ask(service, service.access.CheckAccess, request, "over-ssh")
    [record] = await explanation(service, "over-ssh")
    assert (record.user_name, record.source) == (outsider, "key desktop")


async def test_only_administrators_learn_anything(service: RunningLocks, team: Team) -> None:
    """Others get the same answer for an id that was refused and for one that never was."""
    await ask(service, service.access.CheckAccess, _check(team, team.bob, repository="no/such"), "guessed")
    await explanation(service, "guessed")
    answers = []
    for token in (await service.add_token(team.alice_name), await service.add_token(team.bob_name)):
        for name in ("guessed", "never-refused"):
            request = admin.ExplainRequestRequest(request_id=name)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await service.admin.ExplainRequest(request, metadata=[("authorization", f"Bearer {token}")])
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            answers.append((caught.value.details() or "").partition(" ")[2])
    assert len(set(answers)) == 1


async def test_refusals_are_kept_for_seven_days(service: RunningLocks) -> None:
    """A few rows in a transaction; the oldest of too many go sooner, of users and of strangers apart."""
    await service.execute("DELETE FROM refusals")
    add = (
        "INSERT INTO refusals (request_id, created_at, reason, message, rule, user_name) "
        "SELECT :id || number, now() - make_interval(hours => :hours), '', '', '', :user "
        "FROM generate_series(1, :count) AS number"
    )
    await service.execute(add, id="old", hours=7 * 24 + 1, user="alice", count=5)
    await service.execute(add, id="user", hours=7 * 24 - 1, user="alice", count=4)
    await service.execute(add, id="stranger", hours=1, user="", count=12)
    await delete_old(service, max_rows=2, max_refusals=5)
    left = await service.execute("SELECT request_id FROM refusals ORDER BY id")
    assert [name for (name,) in left] == [
        *(f"user{number}" for number in range(1, 5)),
        *(f"stranger{number}" for number in range(8, 13)),
    ]
