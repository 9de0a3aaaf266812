"""Key sets: a key that an issuer has just published is found, however many requests are on their way."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from joserfc.jwk import ECKey

from services.common.errors import Reason, ResourceExhausted, Unauthenticated
from services.locks.access.third_parties import NOBODY, Asker
from services.locks.issuers import key_sets
from services.locks.issuers.discovery import Endpoints, Metadata
from services.locks.issuers.key_sets import KeySets
from services.locks.issuers.keys import ALGORITHMS, SigningKey

URL = "https://sso.example.org"
FIRST, SECOND = (SigningKey(name, ALGORITHMS["EC"], ECKey.generate_key("P-256")) for name in ("first", "second"))


class Published:
    """The key set of an issuer; a reading has the keys of its beginning, and ends when `may_end` is set."""

    def __init__(self) -> None:
        self.keys = [FIRST]
        self.readings = 0
        self.begun: asyncio.Queue[int] = asyncio.Queue()
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def read(self, url: str) -> Metadata:
        """Return the keys, and the endpoints with the number of the reading."""
        assert url == URL
        self.readings += 1
        self.begun.put_nowait(self.readings)
        found = Metadata(tuple(self.keys), Endpoints(f"{URL}/{self.readings}", f"{URL}/token"))
        await self.may_end.wait()
        return found


@pytest.fixture
def published() -> Published:
    """An issuer with the first key."""
    return Published()


@pytest.fixture
async def sets(published: Published) -> AsyncIterator[KeySets]:
    """Key sets that have read the first key."""
    sets = KeySets(published.read, stale_seconds=60)
    assert await sets.find(URL, "first", "ES256", NOBODY) is FIRST
    assert await published.begun.get() == 1
    yield sets
    published.may_end.set()
    await sets.close()


async def test_a_key_that_is_newer_than_a_refresh_in_flight(
    sets: KeySets, published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refresh that began before the issuer had the key is followed by another one, and the token is not refused."""
    monkeypatch.setattr(key_sets, "REFRESH_SECONDS", 0.0)
    published.may_end.clear()
    assert await sets.find(URL, "first", "ES256", NOBODY) is FIRST
    assert await published.begun.get() == 2
    published.keys.append(SECOND)
    asking = [asyncio.create_task(sets.find(URL, "second", "ES256", NOBODY)) for _ in range(4)]
    await asyncio.sleep(0)
    published.may_end.set()
    assert await asyncio.gather(*asking) == [SECOND] * 4
    assert published.readings == 3


async def test_a_key_that_is_newer_than_a_search_in_flight(sets: KeySets, published: Published) -> None:
    """A search for a made-up key uses up the minute: the token waits, and is not called wrong."""
    published.may_end.clear()
    made_up = asyncio.create_task(sets.find(URL, "made-up", "ES256", NOBODY))
    assert await published.begun.get() == 2
    published.keys.append(SECOND)
    newer = asyncio.create_task(sets.find(URL, "second", "ES256", NOBODY))
    await asyncio.sleep(0)
    published.may_end.set()
    with pytest.raises(Unauthenticated):
        await made_up
    with pytest.raises(ResourceExhausted) as caught:
        await newer
    assert caught.value.reason == Reason.RATE_LIMITED
    assert 0 < int(caught.value.metadata["retry_after"]) <= 60
    assert published.readings == 2


async def test_endpoints_are_read_with_the_keys(
    sets: KeySets, published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sign-in makes no request of its own; after a while, it has the next one made, and does not wait for it."""
    assert (await sets.endpoints(URL)).authorization == f"{URL}/1"
    monkeypatch.setattr(key_sets, "REFRESH_SECONDS", 0.0)
    assert (await sets.endpoints(URL)).authorization == f"{URL}/1"
    assert await published.begun.get() == 2


async def test_unknown_keys_of_one_address_cost_one_reading(
    sets: KeySets, published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made-up key ids cause no reading each: the next one is that of another address. It costs what a bad one does."""
    monkeypatch.setattr(key_sets, "REFETCH_SECONDS", 0.0)
    with pytest.raises(Unauthenticated):
        await sets.find(URL, "made-up", "ES256", Asker("198.51.100.1"))
    with pytest.raises(ResourceExhausted) as caught:
        await sets.find(URL, "made-up-again", "ES256", Asker("198.51.100.1"))
    assert (caught.value.reason, caught.value.metadata["undecided"]) == (Reason.RATE_LIMITED, "true")
    assert published.readings == 2
    published.keys = [SECOND]
    assert await sets.find(URL, "second", "ES256", Asker("198.51.100.2")) is SECOND
    assert published.readings == 3


async def test_an_address_over_its_limit_causes_no_reading(
    sets: KeySets, published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known keys count for it; neither an unknown one nor the age of the others asks the issuer."""
    limited = Asker("198.51.100.1", is_limited=True)
    with pytest.raises(ResourceExhausted):
        await sets.find(URL, "made-up", "ES256", limited)
    monkeypatch.setattr(key_sets, "REFRESH_SECONDS", 0.0)
    assert await sets.find(URL, "first", "ES256", limited) is FIRST
    assert published.readings == 1
