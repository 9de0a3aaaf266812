"""The pages of a repository without JavaScript: overview, objects and usage; and the page of the interface."""

import re
from collections import Counter
from collections.abc import AsyncIterator
from html import unescape

import pytest
from prometheus_client import REGISTRY
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.storage.v1 import storage_service_pb2 as pb

from tests.service.facade.conftest import Inner, Place, new_place
from tests.service.facade.page_visitor import Visitor, signed_in
from tests.support.facade import RunningFacade
from tests.support.postgres import TestPostgres
from tests.support.waiting import until_answer

_HOSTILE = '<img src="x">\u202egnp'
_OID = re.compile(r'<code class="oid" title="([0-9a-f]{64})"')


@pytest.fixture
async def alice(place: Place) -> AsyncIterator[Visitor]:
    """The one who writes, signed in."""
    async with signed_in(place.facade, place.inner.tokens["alice"]) as visitor:
        yield visitor


@pytest.fixture
async def bob(place: Place) -> AsyncIterator[Visitor]:
    """The one who reads, signed in."""
    async with signed_in(place.facade, place.inner.tokens["bob"]) as visitor:
        yield visitor


@pytest.fixture
async def administrator(place: Place) -> AsyncIterator[Visitor]:
    """An administrator, without a grant in the repository."""
    async with signed_in(place.facade, place.inner.locks.admin_token) as visitor:
        yield visitor


async def _written(place: Place, *sizes: int) -> list[str]:
    """Return the ids of objects of these sizes, written in this order."""
    return [
        await place.inner.storage.write(place.repository_id, f"{place.name} {number} ".encode().ljust(size, b"."))
        for number, size in enumerate(sizes)
    ]


def _words(page: str) -> str:
    """Return what a page says, without its markup."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


async def test_the_largest_objects_in_pages_of_fifty(place: Place, alice: Visitor) -> None:
    """All of them, once each, the largest first; and the way back to the first page."""
    oids = await _written(place, *range(100, 152))
    first, second = await alice.pages(f"/-/objects/{place.name}")
    assert _OID.findall(first) == oids[:1:-1]
    assert _OID.findall(second) == oids[1::-1]
    assert "First page" in second
    assert "First page" not in first


async def test_the_newest_objects(place: Place, bob: Visitor) -> None:
    """Also for those who may write some refs."""
    oids = await _written(place, 200, 100, 300)
    assert _OID.findall(await bob.page(f"/-/objects/{place.name}?list=newest")) == oids[::-1]


async def test_the_damaged_objects(postgres: TestPostgres, place: Place, alice: Visitor) -> None:
    """Those alone whose bytes are good in no store; every list marks them."""
    whole, damaged = await _written(place, 100, 200)
    page = f"/-/objects/{place.name}?list=damaged"
    assert "No object is damaged." in await alice.page(page)
    await postgres.execute(
        f"UPDATE storage.contents SET is_doubted = true WHERE oid = '{damaged}'",  # noqa: S608 - an oid
        database=place.inner.locks.database,
    )
    assert _OID.findall(await alice.page(page)) == [damaged]
    largest = await alice.page(f"/-/objects/{place.name}")
    assert _OID.findall(largest) == [damaged, whole]
    assert largest.count(">damaged<") == 1


async def test_the_bin_tells_who_why_and_until_when(place: Place, alice: Visitor, bob: Visitor) -> None:
    """The name of who removed an object is for those who may write; a reason with markup stays text."""
    kept, removed = await _written(place, 100, 200)
    tombstone = await place.inner.storage.delete(place.repository_id, removed, reason=_HOSTILE)
    page = await alice.page(f"/-/objects/{place.name}?list=bin")
    assert _OID.findall(page) == [removed]
    assert "<img" not in page
    assert "&lt;img src=&#34;x&#34;&gt;" in page
    assert "U+202E" in page
    assert "by alice" in _words(page)
    assert f'datetime="{tombstone.bin_until.ToDatetime():%Y-%m-%dT%H:%M:%SZ}"' in page
    assert "/-/restore-object/" not in page
    seen = await bob.page(f"/-/objects/{place.name}?list=bin")
    assert _OID.findall(seen) == [removed]
    assert "by alice" not in _words(seen)
    assert _OID.findall(await bob.page(f"/-/objects/{place.name}")) == [kept]


async def test_an_administrator_undeletes(place: Place, administrator: Visitor) -> None:
    """By the form in the list, without a grant in the repository, as from the command line."""
    [oid] = await _written(place, 100)
    await place.inner.storage.delete(place.repository_id, oid)
    page = f"/-/objects/{place.name}?list=bin"
    assert f'action="/-/restore-object/{place.name}"' in await administrator.page(page)
    answer = await administrator.submit(f"/-/restore-object/{place.name}", at=page, oid=oid)
    assert answer.status_code == 303
    after = await administrator.page(answer.headers["location"])
    assert f"The object {oid[:12]} is out of the bin." in _words(after)
    assert "The bin is empty." in after
    assert await place.inner.storage.statuses(place.repository_id, oid) == [pb.OBJECT_STATUS_PRESENT]


async def test_an_undelete_that_comes_too_late(place: Place, administrator: Visitor) -> None:
    """The list is shown again, with the reason."""
    [oid] = await _written(place, 100)
    await place.inner.storage.delete(place.repository_id, oid)
    await place.inner.storage.purge(place.repository_id, oid)
    answer = await administrator.submit(
        f"/-/restore-object/{place.name}", at=f"/-/objects/{place.name}?list=bin", oid=oid
    )
    assert answer.status_code == 409
    assert 'role="alert"' in answer.text
    assert "The bin is empty." in answer.text
    assert await place.inner.storage.statuses(place.repository_id, oid) == [pb.OBJECT_STATUS_REMOVED]


async def test_nobody_else_undeletes(place: Place, alice: Visitor, administrator: Visitor) -> None:
    """A form of a user who is no administrator is refused, and one without the text of the session."""
    [oid] = await _written(place, 100)
    await place.inner.storage.delete(place.repository_id, oid)
    form = f"/-/restore-object/{place.name}"
    assert (await alice.submit(form, at=f"/-/objects/{place.name}?list=bin", oid=oid)).status_code == 403
    assert (await administrator.send(form, {"oid": oid})).status_code == 403
    assert await place.inner.storage.statuses(place.repository_id, oid) == [pb.OBJECT_STATUS_REMOVED]


@pytest.mark.parametrize("query", ["list=smallest", "cursor=x", f"list=bin&cursor={'0' * 64}"])
async def test_a_list_that_does_not_exist(place: Place, alice: Visitor, query: str) -> None:
    """An unknown name of a list, and a cursor of another one, are told as such."""
    answer = await alice.get(f"/-/objects/{place.name}?{query}")
    assert answer.status_code == 422
    assert "expected" in answer.text


@pytest.mark.parametrize("page", ["/-/objects/", "/-/usage/", "/"])
async def test_only_readers_see_the_pages(place: Place, page: str) -> None:
    """Strangers are led to the sign-in, and a user without a grant is told of no repository."""
    async with Visitor(place.facade.origin) as carol:
        answer = await carol.get(page + place.name)
        assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/-/sign-in")
        await carol.sign_in(place.inner.tokens["carol"])
        assert (await carol.get(page + place.name)).status_code == 404


async def test_the_usage(place: Place, bob: Visitor) -> None:
    """The figures, the limits with a bar, the largest objects, and 90 days as pictures and as a table."""
    oids = await _written(place, *range(1_000, 1_012))
    await place.inner.storage.delete(place.repository_id, oids[0])
    await place.inner.storage.limit(place.repository_id, quota=13_000, bandwidth=1_000_000)
    page = await bob.page(f"/-/usage/{place.name}")
    words = _words(page)
    assert "Size 11.1 kB Objects 11 Growth in 30 days +11.1 kB In the bin 1 kB in 1" in words
    assert "Quota, with what is reserved for uploads: 11.1 kB of 13 kB, 85 %, almost used up" in words
    assert "Bandwidth of today (UTC): 12.1 kB of 1 MB, 1 %" in words
    assert page.count("<meter") == 2
    assert 'max="13000"' in page
    assert 'value="11066"' in page
    assert _OID.findall(page) == oids[:1:-1]
    assert page.count('<svg class="chart"') == 2
    assert len(re.findall(r'<th scope="row"><time', page)) == 90


async def test_the_usage_of_an_empty_repository(place: Place, alice: Visitor) -> None:
    """Nothing is stored, grown or limited, and the pictures are level lines."""
    page = await alice.page(f"/-/usage/{place.name}")
    words = _words(page)
    assert "Size 0 bytes Objects 0 Growth in 30 days none" in words
    assert "Nothing limits what this repository holds and moves." in words
    assert "No object is stored here." in words
    assert page.count('<svg class="chart"') == 2


async def test_an_administrator_sees_the_usage(place: Place, administrator: Visitor) -> None:
    """Without a grant in the repository."""
    await _written(place, 500)
    assert "Size 500 bytes Objects 1" in _words(await administrator.page(f"/-/usage/{place.name}"))


async def test_the_overview_tells_what_the_caller_may(place: Place, alice: Visitor, bob: Visitor) -> None:
    """And that the repository is private."""
    page = _words(await alice.page(f"/{place.name}"))
    assert f"{place.name} private" in page
    assert "You may write" in page
    assert "You may write some refs" in _words(await bob.page(f"/{place.name}"))


async def test_the_overview_asks_for_the_rights_at_once(place: Place, bob: Visitor) -> None:
    """One call tells all of them, and none is refused, whatever the visitor lacks."""

    async def calls_of_a_page() -> Counter[tuple[str, str]]:
        before = _calls()
        await bob.page(f"/{place.name}")
        return _calls() - before

    # Where the machine stands still for a second, the facade does not know of revocations, and asks more.
    await until_answer(Counter({("ListUserRepositories", "OK"): 1}), calls_of_a_page)


def _calls() -> Counter[tuple[str, str]]:
    """Return the calls of AccessService about what a user may do, by method and status."""
    counted: Counter[tuple[str, str]] = Counter()
    for metric in REGISTRY.collect():
        for sample in metric.samples if metric.name == "towpath_grpc_requests" else ():
            method = sample.labels.get("method", "").rpartition("/")[2]
            if sample.name == "towpath_grpc_requests_total" and method in ("CheckAccess", "ListUserRepositories"):
                counted[method, sample.labels["status"]] += int(sample.value)
    return counted


async def test_the_overview_of_an_archived_repository(place: Place, alice: Visitor) -> None:
    """It says so, and tells nobody to connect."""
    locks = place.inner.locks
    request = admin.UpdateRepositoryRequest(name=place.name, archived=True)
    await locks.admin_peer.call(locks.admin.UpdateRepository, request)
    page = _words(await alice.page(f"/{place.name}"))
    assert "This repository is archived" in page
    assert "You may write" in page
    assert "Connect a repository" not in page


async def test_the_pages_of_a_public_repository(facade: RunningFacade, inner: Inner) -> None:
    """Everybody sees counts; the ids of objects, and why some were removed, are for those who write."""
    place = await new_place(facade, inner, public=True)
    kept, removed = await _written(place, 100, 200)
    await inner.storage.delete(place.repository_id, removed, reason="secret")
    async with Visitor(facade.origin) as stranger:
        page = _words(await stranger.page(f"/{place.name}"))
        assert f"{place.name} public" in page
        assert "You may read" in page
        assert "Objects 1 Size 100 bytes" in page
        for _ in range(2):
            for path in (f"/{place.name}", f"/{place.name}/locks", f"/-/history/{place.name}"):
                shown = await stranger.page(path)
                assert "/-/history/" in shown
                assert "/-/objects/" not in shown
                assert "/-/usage/" not in shown
            for path in ("objects", "usage"):
                answer = await stranger.get(f"/-/{path}/{place.name}")
                assert answer.status_code == 403
                assert kept not in answer.text
                assert "are shown to those who may write it" in answer.text
            # A user without a grant is a reader, too.
            await stranger.sign_in(inner.tokens["carol"])


async def test_the_interface_is_described_for_everybody(facade: RunningFacade) -> None:
    """Each operation and schema of openapi.json is on the page, each link leads somewhere, and no style is in it."""
    async with Visitor(facade.origin) as stranger:
        page = await stranger.page("/docs")
        description = (await stranger.get("/openapi.json")).json()
    ids = Counter(re.findall(r' id="([^"]+)"', page))
    assert max(ids.values()) == 1
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    operations = [each for methods in description["paths"].values() for each in methods.values()]
    assert {each["operationId"] for each in operations} <= set(ids)
    assert {f"schema-{name}" for name in description["components"]["schemas"]} <= set(ids)
    words = _words(page)
    assert all(path in words for path in description["paths"])
    assert f"BASE={facade.origin}" in words
    assert "style=" not in page
