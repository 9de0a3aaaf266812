"""A flood of bad credentials from one address: it costs others little, and who is known there nothing."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from prometheus_client import REGISTRY
from towpath.access.v1 import access_service_pb2 as access
from towpath.locks.v1 import lock_service_pb2 as locks

from services.common.client_addresses import limit_key
from services.common.errors import Reason, ResourceExhausted, Unauthenticated
from services.common.token_prefix import TOKEN_PREFIX
from tests.service.facade.inner_failures import check_error, running_scripted
from tests.service.facade.test_access_cache import Watched
from tests.support.facade import RunningFacade, running_facade
from tests.support.http import basic
from tests.support.waiting import STEP_SECONDS, until

FLOODED, OTHER = "198.51.100.40", "198.51.100.41"
_QUEUE = 8


@dataclass
class Guarded:
    """A lock service that knows the tokens `good…`, and says no to others when it is let; and a facade before it."""

    facade: RunningFacade
    watched: Watched
    good: str = "good"
    under_way: int = 0
    most: int = 0
    asked: int = 0
    askers: list[tuple[str, bool]] = field(default_factory=list)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def authenticate(self, request: access.AuthenticateRequest) -> access.AuthenticateResponse:
        """Answer, as the lock service does."""
        if request.token.startswith(self.good):
            return access.AuthenticateResponse(user_id=1, user_name="alice", keep_seconds=600)
        self.asked += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.goes_on.wait()
        self.under_way -= 1
        if request.token.startswith("undecided"):
            self.askers.append((request.client_address, request.client_is_limited))
            kind = "free" if request.token.endswith("free") else "true"
            raise ResourceExhausted(Reason.RATE_LIMITED, "not now", retry_after="5", undecided=kind)
        if request.token.startswith("revoked"):
            raise Unauthenticated(Reason.BAD_CREDENTIALS, "the token laptop was revoked", revoked="laptop")
        raise Unauthenticated(Reason.BAD_CREDENTIALS, "no such token")

    async def ask(self, http: httpx.AsyncClient, token: str, address: str) -> httpx.Response:
        """List locks, from an address."""
        headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": address}
        return await http.get(f"{self.facade.origin}/demo/assets/locks", headers=headers)


async def _use_up(guarded: Guarded, http: httpx.AsyncClient, token: str, address: str) -> None:
    assert (await guarded.ask(http, token, address)).status_code == 401
    check_error(await guarded.ask(http, token, address), 429)


@pytest.fixture
def failed_logins() -> str:
    """The limit of bad credentials, which a test may give another number."""
    return "1/hour"


@pytest.fixture
async def guarded(tmp_path: Path, failed_logins: str) -> AsyncIterator[Guarded]:
    """A facade at which, by default, one bad credential of an address is one too few to be slowed."""
    async with running_scripted(tmp_path) as (scripted, at):
        watched = Watched(scripted)
        scripted.reply("ListLocks", locks.ListLocksResponse())
        async with running_facade(
            at,
            at,
            trusted_proxies="127.0.0.1",
            failed_logins=failed_logins,
            failed_logins_queue=_QUEUE,
            failed_logins_wait_seconds=STEP_SECONDS,
            rpc_seconds=STEP_SECONDS,
        ) as facade:
            running = Guarded(facade, watched)
            scripted.answers["Authenticate"] = running.authenticate
            yield running


async def test_a_flood_is_asked_for_one_by_one(guarded: Guarded, http: httpx.AsyncClient) -> None:
    """The lock service has one question of that address at a time, as many wait as may, and the rest is told 429."""
    guarded.goes_on.set()
    await _use_up(guarded, http, "bad", FLOODED)
    guarded.goes_on.clear()
    guarded.asked = guarded.most = 0
    flood = [asyncio.create_task(guarded.ask(http, f"bad-{n}", FLOODED)) for n in range(3 * _QUEUE)]
    await until(lambda: sum(task.done() for task in flood) == 2 * _QUEUE, "those for whom no room is are told")
    assert guarded.asked == 1
    guarded.goes_on.set()
    for answer in await asyncio.gather(*flood):
        check_error(answer, 429)
    assert (guarded.asked, guarded.most) == (_QUEUE, 1)


async def test_a_revoked_token_counts_as_a_bad_one(guarded: Guarded, http: httpx.AsyncClient) -> None:
    """Whoever shows it is told so, and slowed like anybody."""
    guarded.goes_on.set()
    answer = await guarded.ask(http, "revoked", FLOODED)
    check_error(answer, 401)
    assert answer.json()["message"] == "the token laptop was revoked"
    check_error(await guarded.ask(http, "revoked", FLOODED), 429)
    check_error(await guarded.ask(http, "bad", FLOODED), 429)


@pytest.mark.parametrize("failed_logins", ["8/hour"])
@pytest.mark.parametrize("kind", ["bad", "undecided"])
async def test_each_credential_of_a_request_counts(guarded: Guarded, http: httpx.AsyncClient, kind: str) -> None:
    """A request may show four, and a user name that looks like a token is one more in each."""
    guarded.goes_on.set()
    shown = [basic(f"{TOKEN_PREFIX}{kind}-{n}", f"{kind}-{n}") for n in range(4)]
    headers = [*(("Authorization", each) for each in shown), ("X-Forwarded-For", FLOODED)]
    url = f"{guarded.facade.origin}/demo/assets/locks"
    assert (await http.get(url, headers=headers)).status_code == (401 if kind == "bad" else 429)
    assert guarded.asked == 8
    check_error(await guarded.ask(http, "bad", FLOODED), 429)


async def test_a_token_about_which_nobody_was_asked_counts_as_a_bad_one(
    guarded: Guarded, http: httpx.AsyncClient
) -> None:
    """The lock service learns the address, which all addresses of a client share, and that it is over its limit."""
    guarded.goes_on.set()
    address = "2001:db8:0:1::5"
    for token in ("undecided-free", "undecided"):
        answer = await guarded.ask(http, token, address)
        check_error(answer, 429)
        assert (answer.json()["message"], answer.headers["retry-after"]) == ("not now", "5")
    check_error(await guarded.ask(http, "bad", address), 429)
    answer = await guarded.ask(http, "undecided-2", address)
    assert answer.json()["message"] == "too many bad credentials came from your address"
    assert guarded.askers == [(limit_key(address), is_limited) for is_limited in (False, False, True)]


async def test_one_good_token_among_undecided_ones_is_enough(guarded: Guarded, http: httpx.AsyncClient) -> None:
    """A client may show several: that nobody could be asked about one decides nothing about the others."""
    guarded.goes_on.set()
    headers = [("Authorization", f"Bearer {token}") for token in ("undecided", "good")]
    url = f"{guarded.facade.origin}/demo/assets/locks"
    assert (await http.get(url, headers=[*headers, ("X-Forwarded-For", OTHER)])).status_code == 200


async def _flooded(guarded: Guarded, http: httpx.AsyncClient) -> list[asyncio.Task[httpx.Response]]:
    """Have `good-known` known, and return three bad ones of an address that is slowed: one is asked for, two wait."""
    guarded.goes_on.set()
    await until(lambda: _is_known(guarded, http))
    await _use_up(guarded, http, "bad", FLOODED)
    guarded.goes_on.clear()
    flood = [asyncio.create_task(guarded.ask(http, f"bad-{n}", FLOODED)) for n in range(3)]
    await until(lambda: guarded.under_way == 1)
    return flood


async def test_good_credentials_pass_a_flood(guarded: Guarded, http: httpx.AsyncClient) -> None:
    """Those that are known at once; those of another address too; new ones of the same when it is their turn."""
    flood = await _flooded(guarded, http)
    assert (await guarded.ask(http, "good-known", FLOODED)).status_code == 200
    assert (await guarded.ask(http, "good-other", OTHER)).status_code == 200
    new = asyncio.create_task(guarded.ask(http, "good-new", FLOODED))
    guarded.goes_on.set()
    assert (await new).status_code == 200
    assert [answer.status_code for answer in await asyncio.gather(*flood)] == [429] * 3


async def test_who_was_known_waits_for_no_turn_after_a_change_of_access(
    guarded: Guarded, http: httpx.AsyncClient
) -> None:
    """All is asked for again then; a token that was good is at once, and one that has ended meanwhile in its turn."""
    flood = await _flooded(guarded, http)
    await guarded.watched.change_and_be_heard()
    assert (await guarded.ask(http, "good-known", FLOODED)).status_code == 200
    guarded.good = "others"
    await guarded.watched.change_and_be_heard()
    ended = asyncio.create_task(guarded.ask(http, "good-known", FLOODED))
    await until(lambda: guarded.under_way == 2, "it is asked for at once")
    again = asyncio.create_task(guarded.ask(http, "good-known", FLOODED))
    guarded.goes_on.set()
    assert [answer.status_code for answer in await asyncio.gather(*flood, ended, again)] == [429] * 5
    assert guarded.most == 2


async def _is_known(guarded: Guarded, http: httpx.AsyncClient) -> bool:
    """Tell whether a token is answered for from memory: changes of access are known from some moment on."""
    before = _recalled()
    assert (await guarded.ask(http, "good-known", OTHER)).status_code == 200
    return _recalled() > before


def _recalled() -> float:
    return REGISTRY.get_sample_value("towpath_access_answers_total", {"question": "caller", "source": "memory"}) or 0
