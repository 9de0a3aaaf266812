"""Who comes too often, or with too many (429 with Retry-After: client rows 6, 7 and 18)."""

import asyncio
from collections.abc import AsyncIterator

import httpx

from services.facade.dialect import WIDESPREAD
from tests.service.facade.conftest import Place
from tests.support.facade import running_facade
from tests.support.http import Client, basic, content, oid_of


async def test_repeated_bad_credentials_are_slowed_and_good_ones_never_refused(place: Place) -> None:
    """Those without credentials are not counted; malformed ones are."""
    inner = place.inner
    async with (
        running_facade(inner.storage.address, inner.locks.address, failed_logins="3/minute") as facade,
        httpx.AsyncClient(trust_env=False, headers={"Accept": WIDESPREAD.media_type}) as http,
    ):
        url = f"{facade.origin}/{place.name}/locks"
        for _ in range(5):
            assert (await http.get(url)).status_code == 401
        statuses = []
        for authorization in ("Bearer x", "Basic !", basic("alice", "y"), "Bearer z", "Bearer z"):
            response = await http.get(url, headers={"Authorization": authorization})
            statuses.append(response.status_code)
        assert statuses == [401, 401, 401, 429, 429]
        assert 1 <= int(response.headers["retry-after"]) <= 60
        assert response.headers["content-type"] == WIDESPREAD.media_type
        assert "blob-authenticate" not in response.headers
        good = await http.get(url, headers={"Authorization": basic("alice", inner.tokens["alice"])})
        assert good.status_code == 200


async def test_too_many_requests_at_once_are_told_to_come_again(place: Place) -> None:
    """Before any work; what watches over the facade is answered all the same."""
    inner = place.inner
    data = content("held back", 1_000)
    sending, going = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield data[:500]
        sending.set()
        await going.wait()
        yield data[500:]

    async with (
        running_facade(inner.storage.address, inner.locks.address, requests_in_flight=1) as facade,
        Client(f"{facade.origin}/{place.name}", "alice", inner.tokens["alice"]) as alice,
    ):
        action = await alice.action("upload", oid_of(data), len(data))
        assert action is not None
        upload = asyncio.create_task(alice.put(action, slowly(), len(data)))
        await sending.wait()
        await asyncio.sleep(0.3)
        busy = await alice.locks()
        assert busy.status_code == 429
        assert int(busy.headers["retry-after"]) >= 1
        assert busy.json()["request_id"] == busy.headers["x-request-id"]
        assert (await alice.http.get(f"{facade.origin}/readyz")).status_code == 200
        going.set()
        assert (await upload).status_code == 200
        assert (await alice.locks()).status_code == 200
