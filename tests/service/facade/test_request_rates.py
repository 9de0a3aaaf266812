"""Rates of requests over three facades, on one lock service and on two: each holds for all of them together.

Loads that go on are in tests/unit/facade/clients/test_rate_leases.py, in virtual time.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1 import lock_service_pb2 as locks

from services.common.errors import Reason, Unavailable
from services.facade.clients import rate_leases
from tests.service.facade.conftest import Inner
from tests.service.facade.inner_failures import Running, check_error, client_of
from tests.support.facade import RunningFacade, running_facade
from tests.support.http import Client, basic, content, oid_of
from tests.support.locks import serving_locks
from tests.support.waiting import STEP_SECONDS, until

_numbers = itertools.count()
FACADES = 3
SLOW = 10
"""Requests per hour: none is added during a test, so that all that pass are those of the burst."""
BURST = 10
FAST = 20 * 3600


@dataclass
class Site:
    """Three facades in front of the lock services, with the repository and the user of one test."""

    inner: Inner
    facades: Sequence[RunningFacade]
    repository: str
    user: str
    token: str

    @asynccontextmanager
    async def clients(self, token: str = "") -> AsyncIterator[list[Client]]:
        """Yield a client of the user at each of the facades."""
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(
                    Client(f"{facade.origin}/{self.repository}", self.user, token or self.token)
                )
                for facade in self.facades
            ]

    async def limit(self, per_hour: int) -> None:
        """Give the user a limit."""
        request = admin.UpdateUserRequest(name=self.user, rate=admin.RequestRate(requests_per_hour=per_hour))
        await self.inner.locks.admin_peer.call(self.inner.locks.admin.UpdateUser, request)


async def _new_site(inner: Inner, facades: Sequence[RunningFacade], *, per_hour: int | None) -> Site:
    number = next(_numbers)
    repository, user = f"rates/film-{number}", f"limited-{number}"
    await inner.locks.add_repository(repository)
    rate = None if per_hour is None else admin.RequestRate(requests_per_hour=per_hour)
    await inner.locks.admin_peer.call(inner.locks.admin.CreateUser, admin.CreateUserRequest(name=user, rate=rate))
    await inner.locks.grant(user, repository, admin.ROLE_WRITE)
    return Site(inner, facades, repository, user, await inner.locks.add_token(user))


@pytest.fixture(scope="module", params=[1, 2], ids=["one lock service", "two lock services"])
async def facades(
    inner: Inner, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Sequence[RunningFacade]]:
    """Three facades; with two lock services, the last facade asks the second one."""
    folder: Path = tmp_path_factory.mktemp("second")
    async with AsyncExitStack() as stack:
        # A facade that is not answered in time lets requests pass, as in an outage.
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(rate_leases, "_DEADLINE_SECONDS", STEP_SECONDS)
        addresses = [inner.locks.address] * FACADES
        if request.param == 2:
            second = serving_locks(
                inner.locks.database_url, folder, storage_address=inner.storage.address, name="second"
            )
            addresses[-1] = await stack.enter_async_context(second)
        yield [await stack.enter_async_context(running_facade(inner.storage.address, address)) for address in addresses]


async def _statuses(clients: Sequence[Client]) -> Counter[int]:
    """List locks with each of the clients at once."""
    answers = await asyncio.gather(*(client.locks() for client in clients))
    return Counter(answer.status_code for answer in answers)


async def test_a_rate_is_shared_by_all_facades(inner: Inner, facades: Sequence[RunningFacade]) -> None:
    """Of many requests at once, at all facades, those of the burst pass, and the others learn when to come again."""
    site = await _new_site(inner, facades, per_hour=SLOW)
    async with site.clients() as clients:
        assert await _statuses(clients * 10) == {200: BURST, 429: 20}
        for client in clients:
            refused = await client.locks()
            check_error(refused, 429)
            assert refused.json()["message"] == "too many requests: your user may make 10/h; try again in 300 s"
            assert refused.headers["Retry-After"] == "300"


async def test_a_token_has_a_rate_beside_its_user(inner: Inner, facades: Sequence[RunningFacade]) -> None:
    """A request that is refused because of the token is not taken from the user, whose other tokens go on."""
    site = await _new_site(inner, facades, per_hour=FAST)
    rate = admin.RequestRate(requests_per_hour=SLOW)
    request = admin.CreateTokenRequest(user_name=site.user, name="build", rate=rate)
    secret = (await inner.locks.admin_peer.call(inner.locks.admin.CreateToken, request)).secret
    async with site.clients() as clients, site.clients(secret) as builds:
        assert await _statuses(builds * 10) == {200: BURST, 429: 20}
        refused = await builds[0].locks()
        assert refused.json()["message"] == "too many requests: your token may make 10/h; try again in 300 s"
        assert await _statuses(clients * 10) == {200: 30}


async def test_a_limit_is_changed_at_every_facade(inner: Inner, facades: Sequence[RunningFacade]) -> None:
    """Lower, and none; the facades had cached the earlier one."""
    site = await _new_site(inner, facades, per_hour=None)
    async with site.clients() as clients:
        assert await _statuses(clients * 10) == {200: 30}
        await site.limit(SLOW)
        for client in clients:
            await until(partial(_is_refused, client), "the limit counts")
        await site.limit(0)
        for client in clients:
            await until(partial(_passes, client), "there is no limit")


async def _is_refused(client: Client) -> bool:
    return (await client.locks()).status_code == 429


async def _passes(client: Client) -> bool:
    return await _statuses([client] * 5) == {200: 5}


async def test_locks_and_transfers_go_on(inner: Inner, facades: Sequence[RunningFacade]) -> None:
    """A rate that is used up refuses batches and lists; it bars nobody from a lock, and no granted transfer."""
    site = await _new_site(inner, facades, per_hour=SLOW)
    data = content("rates", 1_000)
    async with site.clients() as (client, *_):
        action = await client.offered("upload", data)
        await _statuses([client] * 20)
        check_error(await client.batch("download", (oid_of(data), len(data))), 429)
        for path in ("locks", "locks/history", "locks/events"):
            headers = {"Authorization": basic(site.user, site.token), "Accept": "*/*"}
            check_error(await client.http.get(f"{client.base_url}/{path}", headers=headers), 429)
        locked = await client.lock("a.uasset")
        assert locked.status_code == 201
        assert (await client.post("locks/verify")).status_code == 200
        assert (await client.unlock(locked.json()["lock"]["id"])).status_code == 200
        assert (await client.post("locks/batch/lock", paths=["b.uasset"])).status_code == 200
        assert (await client.post("locks/batch/unlock", paths=["b.uasset"])).status_code == 200
        assert (await client.put(action, data, len(data))).status_code == 200


async def test_refusals_are_counted(inner: Inner, facades: Sequence[RunningFacade]) -> None:
    """The series tells users and tokens apart."""
    site = await _new_site(inner, facades, per_hour=SLOW)

    def counted() -> float:
        return REGISTRY.get_sample_value("towpath_http_rate_limited_total", {"holder": "user"}) or 0.0

    async with site.clients() as (client, *_):
        before = counted()
        assert await _statuses([client] * 13) == {200: BURST, 429: 3}
        assert counted() - before == 3


async def test_without_an_answer_every_request_passes(scripted: Running) -> None:
    """A rate that is not known bars nobody: authentication fails in an outage anyway."""
    inner, facade = scripted
    limited = access.AuthenticateResponse(user_id=1, user_name="alice", requests_per_hour=SLOW)
    inner.reply("Authenticate", limited)
    inner.reply("ListLocks", locks.ListLocksResponse())
    inner.fail("TakeRate", Unavailable(Reason.UNAVAILABLE, "the database does not answer"))
    asked = inner.record("TakeRate")
    async with client_of(facade) as client:
        assert await _statuses([client] * 20) == {200: 20}
    assert asked
