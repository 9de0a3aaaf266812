"""CountFailedLogins: what addresses owe for bad credentials, added up over all who tell of them (client-6)."""

import asyncio
import math

import pytest
from towpath.access.v1 import access_service_pb2 as access

from services.common.errors import InvalidArgument, Reason
from tests.support.locks import RunningLocks, refused
from tests.support.waiting import until

MAXIMUM = 1_000


async def _count(service: RunningLocks, failed: dict[str, int], *, each: float = 100) -> dict[str, float]:
    request = access.CountFailedLoginsRequest(
        failed=[
            access.CountFailedLoginsRequest.FailedLogins(address=address, count=count)
            for address, count in failed.items()
        ],
        seconds_each=each,
    )
    reply = await service.peer.call(service.access.CountFailedLogins, request)
    return dict(zip(failed, reply.debt_seconds, strict=True))


async def test_debts_add_up(service: RunningLocks) -> None:
    """Each address has its own, in the order asked, and time pays it off."""
    assert await _count(service, {"b": 2, "a": 1}) == {"b": 200, "a": 100}
    debts = await _count(service, {"a": 1, "c": 3})
    assert 150 < debts["a"] < 200
    assert debts["c"] == 300


async def test_what_is_paid_is_forgotten(service: RunningLocks) -> None:
    """An address that fails no more leaves no row; it begins anew."""
    await _count(service, {"paid": 1}, each=0.001)

    async def is_forgotten() -> bool:
        await _count(service, {"in debt": 1})
        found = [address for (address,) in await service.execute("SELECT address FROM failed_logins")]
        assert "in debt" in found
        return "paid" not in found

    await until(is_forgotten)
    assert await _count(service, {"paid": 1}) == {"paid": 100}


async def test_many_tell_at_once(service: RunningLocks) -> None:
    """Nothing is lost or fails where all tell of the same addresses, whatever the order."""
    addresses = [f"many {number}" for number in range(100)]
    calls = [dict.fromkeys(addresses[::step], 1) for step in (1, -1)] * 20
    await asyncio.gather(*(_count(service, failed, each=1_000) for failed in calls))
    debts = await _count(service, dict.fromkeys(addresses, 1), each=1_000)
    assert {math.ceil(debt / 1_000) for debt in debts.values()} == {len(calls) + 1}


async def test_a_debt_has_an_end(service: RunningLocks) -> None:
    """No number of calls brings a debt beyond the calendar."""
    for _ in range(2):
        debts = await _count(service, {"endless": 1_000_000}, each=366 * 24 * 3600)
    assert debts["endless"] <= 3660 * 24 * 3600


@pytest.mark.parametrize("each", [0.0, -1.0, 1e10, math.inf, math.nan])
async def test_a_time_out_of_bounds_is_refused(service: RunningLocks, each: float) -> None:
    """The message names the field."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, "seconds_each: "):
        await _count(service, {"a": 1}, each=each)


@pytest.mark.parametrize(
    ("failed", "field"),
    [
        ([], "failed"),
        ([(f"{number}", 1) for number in range(MAXIMUM + 1)], "failed"),
        ([("a", 1), ("a", 1)], "failed"),
        ([("", 1)], "address"),
        ([("a" * 65, 1)], "address"),
        ([("a\0", 1)], "address"),
        ([("a", 0)], "count"),
        ([("a", 1_000_001)], "count"),
    ],
)
async def test_what_is_malformed_is_refused(service: RunningLocks, failed: list[tuple[str, int]], field: str) -> None:
    """The message names the field, and nothing is counted."""
    entries = [access.CountFailedLoginsRequest.FailedLogins(address=address, count=count) for address, count in failed]
    request = access.CountFailedLoginsRequest(failed=entries, seconds_each=1)
    with refused(InvalidArgument, Reason.INVALID_FIELD, f"{field}: "):
        await service.peer.call(service.access.CountFailedLogins, request)
