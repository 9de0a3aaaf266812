"""Rates of requests: whose limit counts, and TakeRate, which all facades ask of all lock services."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import InvalidArgument, NotFound, Reason
from services.locks.access.gcra import Rate
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused, running_locks
from tests.support.postgres import TestPostgres
from tests.support.waiting import STEP_SECONDS, until_answer

Holder = access.TakeRateRequest.Holder
SLOW = 10
"""Requests per hour: none is added during a test, so that all that is left is the burst."""


def rate(per_hour: int | None) -> admin.RequestRate:
    """Return a limit; None for none of its own."""
    return admin.RequestRate(requests_per_hour=per_hour)


async def limits(service: RunningLocks, token: str) -> tuple[int, int]:
    """Return the limits of a user and of a token, as facades learn them."""
    reply = await service.peer.call(service.access.Authenticate, access.AuthenticateRequest(token=token))
    return reply.requests_per_hour, reply.token_requests_per_hour


async def take(service: RunningLocks, *holders: Holder) -> Sequence[access.TakeRateResponse.Taken]:
    """Take requests."""
    return (await service.peer.call(service.access.TakeRate, access.TakeRateRequest(holders=holders))).taken


async def set_rate_of_user(service: RunningLocks, name: str, per_hour: int | None) -> admin.User:
    """Set a user's own limit."""
    request = admin.UpdateUserRequest(name=name, rate=rate(per_hour))
    return (await service.admin_peer.call(service.admin.UpdateUser, request)).user


async def set_rate_of_group(service: RunningLocks, name: str, per_hour: int | None) -> None:
    """Set the limit of a group's members."""
    request = admin.UpdateGroupRequest(name=name, rate=rate(per_hour))
    await service.admin_peer.call(service.admin.UpdateGroup, request)


async def add_group(service: RunningLocks, name: str, per_hour: int | None, *members: str) -> None:
    """Make a group with a limit."""
    group = await service.add_group(name, *members, rate=rate(per_hour))
    assert group.HasField("requests_per_hour") == (per_hour is not None)


async def test_a_user_has_no_limit_at_first(service: RunningLocks, team: Team) -> None:
    """Neither has a token."""
    assert await limits(service, await service.add_token(team.alice_name)) == (0, 0)


async def test_the_own_limit_of_a_user_goes_before_those_of_groups(service: RunningLocks, team: Team) -> None:
    """Also where it is lower, and where it is no limit at all; without an own one, that of the group counts again."""
    token = await service.add_token(team.alice_name)
    await add_group(service, f"{team.alice_name}-builds", 500, team.alice_name)
    assert await limits(service, token) == (500, 0)
    for own, expected in ((100, 100), (0, 0), (None, 500)):
        user = await set_rate_of_user(service, team.alice_name, own)
        assert user.HasField("requests_per_hour") == (own is not None)
        assert (await limits(service, token))[0] == expected


async def test_the_highest_limit_of_the_groups_counts(service: RunningLocks, team: Team) -> None:
    """A group without a limit changes nothing; one whose members are not limited is the highest."""
    token, name = await service.add_token(team.alice_name), team.alice_name
    for group, per_hour, expected in (("low", 100, 100), ("none", None, 100), ("high", 300, 300)):
        await add_group(service, f"{name}-{group}", per_hour, name)
        assert (await limits(service, token))[0] == expected
    await set_rate_of_group(service, f"{name}-low", 0)
    assert (await limits(service, token))[0] == 0


async def test_a_token_has_a_limit_beside_that_of_its_user(service: RunningLocks, team: Team) -> None:
    """From its beginning, or later."""
    request = admin.CreateTokenRequest(user_name=team.alice_name, name="build", rate=rate(7))
    made = await service.admin_peer.call(service.admin.CreateToken, request)
    assert made.token.requests_per_hour == 7
    await set_rate_of_user(service, team.alice_name, 100)
    assert await limits(service, made.secret) == (100, 7)
    change = admin.UpdateTokenRequest(user_name=team.alice_name, name="build", rate=rate(8))
    changed = await service.admin_peer.call(service.admin.UpdateToken, change)
    assert changed.token.requests_per_hour == 8
    assert await limits(service, made.secret) == (100, 8)
    listed = await service.tokens(team.alice_name)
    assert [token.requests_per_hour for token in listed] == [8]


async def test_a_default_is_for_users_without_a_limit(postgres: TestPostgres, tmp_path: Path) -> None:
    """A limit of the user, or of a group, goes before it."""
    database_url = await postgres.create_database()
    async with running_locks(database_url, tmp_path, limits={"request_rate": "600/min"}) as service:
        await service.add_user("alice")
        token = await service.add_token("alice")
        assert await limits(service, token) == (36_000, 0)
        await add_group(service, "builds", 5, "alice")
        assert await limits(service, token) == (5, 0)
        await set_rate_of_user(service, "alice", 0)
        assert await limits(service, token) == (0, 0)


async def test_what_does_not_exist_cannot_be_changed(service: RunningLocks, team: Team) -> None:
    """Each is named by its own reason."""
    with refused(NotFound, Reason.USER_NOT_FOUND):
        await set_rate_of_user(service, "nobody", 1)
    with refused(NotFound, Reason.GROUP_NOT_FOUND):
        await set_rate_of_group(service, "nothing", 1)
    with refused(NotFound, Reason.TOKEN_NOT_FOUND):
        request = admin.UpdateTokenRequest(user_name=team.alice_name, name="nothing", rate=rate(1))
        await service.admin_peer.call(service.admin.UpdateToken, request)


@pytest.mark.parametrize("per_hour", [-1, 3_600_001])
async def test_a_limit_out_of_bounds_is_refused(service: RunningLocks, team: Team, per_hour: int) -> None:
    """The message names the field."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, "rate: "):
        await set_rate_of_user(service, team.alice_name, per_hour)


async def test_a_change_of_nothing_is_refused(service: RunningLocks, team: Team) -> None:
    """It would look as if something had been done."""
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await service.admin_peer.call(service.admin.UpdateUser, admin.UpdateUserRequest(name=team.alice_name))


async def _watch(service: RunningLocks, known: dict[str, int], seconds: float = 0) -> dict[str, int]:
    request = access.WatchAccessRequest(known=known, wait_seconds=seconds)
    reply = await service.peer.call(service.access.WatchAccess, request)
    return {reply.source: reply.changes}


@pytest.mark.parametrize("changed", ["user", "group", "token", "member"])
async def test_every_change_of_a_limit_is_told_as_a_change_of_access(
    service: RunningLocks, team: Team, changed: str
) -> None:
    """Facades forget the answers that they know, with the limits in them."""
    name, group = team.alice_name, f"{team.alice_name}-told"
    await service.add_token(name, "told")
    await add_group(service, group, 5, team.bob_name)
    known = await _watch(service, {})
    if changed == "user":
        await set_rate_of_user(service, name, 5)
    elif changed == "group":
        await set_rate_of_group(service, group, 6)
    elif changed == "token":
        request = admin.UpdateTokenRequest(user_name=name, name="told", rate=rate(5))
        await service.admin_peer.call(service.admin.UpdateToken, request)
    else:
        await service.add_members(group, name)
    assert await _watch(service, known) != known


async def test_a_member_of_a_group_without_a_limit_is_not_told(service: RunningLocks, team: Team) -> None:
    """Facades would forget what they know for nothing."""
    group = f"{team.alice_name}-free"
    await add_group(service, group, None, team.bob_name)
    known = await _watch(service, {})
    await service.add_members(group, team.alice_name)
    assert await _watch(service, known) == known


async def test_the_burst_is_taken_once(service: RunningLocks) -> None:
    """Users and tokens with one id are not one holder, and answers are in the order of the request."""
    user = Holder(id=1_000, requests_per_hour=SLOW, needed=6)
    token = Holder(id=1_000, is_token=True, requests_per_hour=SLOW, needed=1)
    assert [taken.requests for taken in await take(service, token, user)] == [1, 6]
    taken = await take(service, user, token)
    assert [answer.requests for answer in taken] == [4, 1]
    assert taken[0].retry_seconds == pytest.approx(3600 / SLOW, abs=STEP_SECONDS)
    assert taken[1].retry_seconds == 0
    assert [answer.requests for answer in await take(service, user)] == [0]


async def test_a_call_that_succeeds_is_no_line_of_the_log(service: RunningLocks) -> None:
    """Facades make up to 50 calls a second each; a failure is news."""
    with capture_logs() as lines:
        await take(service, Holder(id=1_400, requests_per_hour=SLOW, needed=1))
        with refused(InvalidArgument, Reason.INVALID_FIELD):
            await take(service)
    # Other services may run in this process.
    taking = [line for line in lines if line["event"] == "call" and line["method"].endswith("/TakeRate")]
    calls = [(line["status"], line["log_level"]) for line in taking]
    assert calls == [("OK", "debug"), ("INVALID_ARGUMENT", "info")]


async def test_another_limit_begins_anew(service: RunningLocks) -> None:
    """A user who has used up a low limit need not wait for an hour after a raise; one call may have both limits."""
    low, high = (Holder(id=1_500, requests_per_hour=limit, needed=10) for limit in (SLOW, 36_000))
    assert [taken.requests for taken in await take(service, low)] == [10]
    assert [taken.requests for taken in await take(service, low, high)] == [0, 10]
    assert [taken.requests for taken in await take(service, high, low)][1] == 0


async def test_of_many_that_take_at_once_none_gets_too_much(service: RunningLocks, tmp_path: Path) -> None:
    """By two lock services, in any order: nobody waits for ever, and the first request of a holder counts too."""
    ids = list(range(2_000, 2_020))
    asked = [[Holder(id=id_, requests_per_hour=SLOW, needed=1, ahead=2) for id_ in ids[::step]] for step in (1, -1)]
    async with service.second(tmp_path) as second:
        calls = [(asked[number % 2], (second, service)[number % 3 == 0]) for number in range(40)]
        replies = await asyncio.gather(*(take(at, *holders) for holders, at in calls))
    taken: Counter[int] = Counter()
    for (holders, _), reply in zip(calls, replies, strict=True):
        for holder, answer in zip(holders, reply, strict=True):
            taken[holder.id] += answer.requests
    assert taken == dict.fromkeys(ids, Rate(SLOW).burst)


async def test_time_brings_requests_back(service: RunningLocks) -> None:
    """As many as the rate says, and no more: measured by a clock that begins before the first call."""
    holder, per_second = Holder(id=3_000, requests_per_hour=50 * 3600, needed=20), 50
    began, passed = time.monotonic(), 0
    while passed < 200:
        passed += (await take(service, holder))[0].requests
    assert passed <= 100 + per_second * (time.monotonic() - began) + 1


@pytest.mark.parametrize(
    ("holders", "field"),
    [
        ([], "holders"),
        ([Holder(id=number, requests_per_hour=1) for number in range(1, 1_002)], "holders"),
        ([Holder(id=1, requests_per_hour=1)] * 2, "holders"),
        ([Holder(id=0, requests_per_hour=1)], "id"),
        ([Holder(id=1)], "requests_per_hour"),
        ([Holder(id=1, requests_per_hour=3_600_001)], "requests_per_hour"),
        ([Holder(id=1, requests_per_hour=1, needed=-1)], "needed"),
        ([Holder(id=1, requests_per_hour=1, ahead=1_000_001)], "ahead"),
    ],
)
async def test_what_is_malformed_is_refused(service: RunningLocks, holders: list[Holder], field: str) -> None:
    """The message names the field."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, f"{field}: "):
        await take(service, *holders)


async def test_the_rows_of_idle_holders_are_deleted(postgres: TestPostgres, tmp_path: Path) -> None:
    """A service that starts cleans, and then every hour."""
    database_url = await postgres.create_database()
    async with running_locks(database_url, tmp_path) as service:
        await take(service, *(Holder(id=id_, requests_per_hour=SLOW, needed=1) for id_ in (1, 2)))
        await service.execute("UPDATE rate_states SET tat = now() - interval '2 hours' WHERE holder_id = 1")
        async with service.second(tmp_path):
            await until_answer([(2,)], lambda: service.execute("SELECT holder_id FROM rate_states"))
