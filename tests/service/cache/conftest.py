"""A real Towpath as the upstream, behind a proxy that counts and breaks; and callers over plain HTTP."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.facade.conftest import Inner, Place, facade, inner, new_place, place
from tests.support.cache import RunningCache, running_cache
from tests.support.facade import RunningFacade
from tests.support.http import MEDIA_TYPE, Action, Client
from tests.support.scripted_upstream import ScriptedUpstream, scripted_upstream
from tests.support.store_proxy import StoreProxy, store_proxy
from tests.support.waiting import STEP_SECONDS

__all__ = ["Inner", "Place", "facade", "inner", "new_place", "place"]

MIB = 1024**2


@dataclass
class Office:
    """A cache in front of a Towpath, a repository of that one, and the way between both."""

    cache: RunningCache
    proxy: StoreProxy
    place: Place

    def client(self, user: str = "alice", *, ref: str | None = None) -> Client:
        """Return a client of a user, at the cache."""
        return Client(f"{self.cache.origin}/{self.place.name}", user, self.place.inner.tokens[user], ref=ref)

    def sent(self, oid: str) -> int:
        """Return how often the upstream was asked for the bytes of an object."""
        return sum(line.startswith("GET ") and f"/objects/{oid}" in line for line in self.proxy.requests)

    @property
    def batches(self) -> int:
        """The number of batches that the upstream was asked."""
        return sum("/objects/batch" in line for line in self.proxy.requests)

    async def hold(self, data: bytes) -> None:
        """Let the upstream hold an object, past the cache."""
        async with self.place.client() as client:
            assert (await client.upload(data)).status_code == 200


@pytest.fixture
async def proxy(facade: RunningFacade) -> AsyncIterator[StoreProxy]:
    """The way to the upstream."""
    async with store_proxy(facade.address[1]) as proxy:
        yield proxy


@pytest.fixture
def right_seconds() -> float:
    """The seconds for which the cache of `office` does not ask again, which a test may give another number."""
    return 0


@pytest.fixture
def patience_seconds() -> float:
    """The seconds after which the cache of `office` gives up on the upstream, if a test gives no other number."""
    return STEP_SECONDS


@pytest.fixture
async def office(
    proxy: StoreProxy, place: Place, tmp_path: Path, right_seconds: float, patience_seconds: float
) -> AsyncIterator[Office]:
    """A cache in front of the upstream."""
    settings = {
        "cache_right_seconds": right_seconds,
        "cache_connect_seconds": patience_seconds,
        "cache_read_seconds": 2 * patience_seconds,
    }
    async with running_cache(tmp_path / "office", f"http://{proxy.address}", **settings) as cache:
        yield Office(cache, proxy, place)


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    """An upstream that does what the test says."""
    async with scripted_upstream() as upstream:
        yield upstream


@pytest.fixture
def cache_settings() -> dict[str, Any]:
    """The settings of `cache` beside those of each cache, which a test may give."""
    return {}


@pytest.fixture
async def cache(
    upstream: ScriptedUpstream, tmp_path: Path, cache_settings: dict[str, Any]
) -> AsyncIterator[RunningCache]:
    """A cache in front of the scripted upstream."""
    async with running_cache(tmp_path, upstream.origin, **cache_settings) as cache:
        yield cache


class Caller:
    """Somebody with credentials of their own at a cache of a scripted upstream."""

    def __init__(self, cache: RunningCache, credential: str, base: str = "far/film") -> None:
        self.base_url = f"{cache.origin}/{base}"
        self.http = httpx.AsyncClient(timeout=STEP_SECONDS, trust_env=False)
        self._headers = {"Authorization": credential, "Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE}

    async def batch(self, *objects: tuple[str, int], headers: dict[str, str] | None = None) -> httpx.Response:
        """Ask to download objects."""
        body = {"operation": "download", "objects": [{"oid": oid, "size": size} for oid, size in objects]}
        return await self.http.post(
            f"{self.base_url}/objects/batch", json=body, headers={**self._headers, **(headers or {})}
        )

    async def action(self, oid: str, size: int) -> Action:
        """Return the action that downloads an object."""
        response = await self.batch((oid, size))
        assert response.status_code == 200, response.text
        action = response.json()["objects"][0]["actions"]["download"]
        return Action(action["href"], action["header"])

    async def download(self, oid: str, size: int, **headers: str) -> httpx.Response:
        """Download an object."""
        action = await self.action(oid, size)
        return await self.http.get(action.href, headers={**action.header, **headers})


class Callers:
    """The callers of a test, closed at its end."""

    def __init__(self, owned: AsyncExitStack) -> None:
        self._owned = owned

    def __call__(self, cache: RunningCache, credential: str = "reader", base: str = "far/film") -> Caller:
        """Return a new caller, with connections of its own."""
        caller = Caller(cache, credential, base)
        self._owned.push_async_callback(caller.http.aclose)
        return caller


@pytest.fixture
async def callers() -> AsyncIterator[Callers]:
    """A function that makes callers."""
    async with AsyncExitStack() as owned:
        yield Callers(owned)


@pytest.fixture
def caller(cache: RunningCache, callers: Callers) -> Caller:
    """Somebody who may read at the cache."""
    return callers(cache)
