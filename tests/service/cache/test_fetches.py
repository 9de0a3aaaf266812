"""Fetches: what an upstream or its store does wrong, and what the cache's clients see of it."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.service.cache.conftest import MIB, Caller, Callers
from tests.support.cache import RunningCache
from tests.support.http import content, oid_of
from tests.support.scripted_upstream import STORE_HEADER, STORE_SECRET, ScriptedUpstream, scripted_upstream
from tests.support.waiting import until


async def test_tailing_readers_get_bytes_before_the_end(
    upstream: ScriptedUpstream, cache: RunningCache, callers: Callers
) -> None:
    """A reader that comes in the middle begins at the beginning, and one that leaves stops nobody."""
    data = content("tailed", 4 * MIB)
    oid = upstream.add(data)
    upstream.held_after = 2 * MIB
    first, second = callers(cache), callers(cache)
    action = await first.action(oid, len(data))
    async with first.http.stream("GET", action.href, headers=action.header) as leaving:
        async for chunk in leaving.aiter_bytes():
            assert data.startswith(chunk)
            break
        late = await second.action(oid, len(data))
        async with second.http.stream("GET", late.href, headers=late.header) as staying:
            received = bytearray()
            async for chunk in staying.aiter_bytes():
                received += chunk
                if len(received) > MIB and not upstream.flowing.is_set():
                    await leaving.aclose()
                    upstream.flowing.set()
    assert received == data
    assert len(upstream.downloads(oid)) == 1
    await until(lambda: cache.kept == {oid}, "the object is kept")


async def _receive(caller: Caller, oid: str, size: int, received: bytearray) -> None:
    action = await caller.action(oid, size)
    async with caller.http.stream("GET", action.href, headers=action.header) as answer:
        async for chunk in answer.aiter_bytes():
            received += chunk


@pytest.mark.parametrize("size", [100, 3 * MIB])
async def test_wrong_bytes_are_never_whole(
    size: int, upstream: ScriptedUpstream, cache: RunningCache, caller: Caller
) -> None:
    """A small object is refused, a large one cut before its end, and neither is kept."""
    data = content("wrong", size)
    oid = upstream.add(bytes([data[0] ^ 1]) + data[1:], oid_of(data))
    if size < MIB:
        answer = await caller.download(oid, size)
        assert answer.status_code == 502
        assert "hash" in answer.json()["message"]
    else:
        received = bytearray()
        with pytest.raises(httpx.RemoteProtocolError):
            await _receive(caller, oid, size, received)
        assert len(received) < size
    await until(lambda: cache.bytes_on_disk == 0, "nothing is left of it")
    upstream.objects[oid] = data
    assert (await caller.download(oid, size)).content == data
    assert await cache.metric("towpath_cache_damaged_total", place="upstream") == 1


async def test_more_bytes_than_the_object_has(upstream: ScriptedUpstream, cache: RunningCache, caller: Caller) -> None:
    """An upstream that goes on is stopped, and fewer bytes are no object either."""
    data = content("long", 1000)
    oid = oid_of(data)
    for wrong in (data + b"more", data[:-1]):
        upstream.add(wrong, oid)
        assert (await caller.download(oid, len(data))).status_code == 502
    assert cache.kept == set()


@pytest.mark.parametrize("takes_ranges", [True, False])
async def test_a_broken_connection_is_made_again(
    takes_ranges: bool, upstream: ScriptedUpstream, caller: Caller
) -> None:
    """The fetch goes on where it was, with an upstream that sends parts and with one that does not."""
    data = content("broken", 2 * MIB)
    oid = upstream.add(data)
    upstream.takes_ranges = takes_ranges
    upstream.cuts = [MIB, MIB // 2]
    if not takes_ranges:
        upstream.cuts = [MIB // 2, MIB]
    assert (await caller.download(oid, len(data))).content == data
    assert len(upstream.downloads(oid)) == 3


async def test_headers_go_only_to_the_host_they_are_for(upstream: ScriptedUpstream, caller: Caller) -> None:
    """The action's headers reach the store that it names, and not the one to which that redirects."""
    data = content("redirected", 1000)
    async with scripted_upstream() as store, scripted_upstream() as other:
        oid = other.add(data)
        for server in (upstream, store):
            server.add(data)
        upstream.store_origin = store.origin
        store.redirect = other.origin
        assert (await caller.download(oid, len(data))).content == data
        [asked], [final] = store.downloads(oid), other.downloads(oid)
        assert asked.headers[STORE_HEADER] == STORE_SECRET
        assert "authorization" not in asked.headers
        assert STORE_HEADER not in final.headers
        assert upstream.downloads(oid) == []


async def test_credentials_of_the_caller_are_for_the_upstream_alone(upstream: ScriptedUpstream, caller: Caller) -> None:
    """An action that is not authenticated gets the caller's credentials at the upstream, and nowhere else."""
    here, elsewhere = content("here", 10), content("elsewhere", 10)
    upstream.entry_fields = {}
    async with scripted_upstream() as store:
        assert (await caller.download(upstream.add(here), 10)).content == here
        [asked] = upstream.downloads(oid_of(here))
        assert asked.headers["authorization"] == "reader"
        upstream.store_origin = store.origin
        upstream.add(elsewhere)
        assert (await caller.download(store.add(elsewhere), 10)).content == elsewhere
        [asked] = store.downloads(oid_of(elsewhere))
        assert "authorization" not in asked.headers


@pytest.mark.parametrize("cache_settings", [{"cache_right_seconds": 0}])
async def test_cookies_are_neither_kept_nor_passed(upstream: ScriptedUpstream, caller: Caller) -> None:
    """The upstream's cookies, and those of callers, end here: they are credentials that no right is remembered by."""
    data = content("cookies", 10)
    oid = upstream.add(data)
    for _ in range(2):
        answer = await caller.batch((oid, 10), headers={"Cookie": "session=mine", "Private-Token": "secret"})
        assert "set-cookie" not in answer.headers
    assert len(upstream.batches) == 2
    assert [seen.headers.keys() & {"cookie", "private-token"} for seen in upstream.seen] == [set(), set()]


async def test_one_refused_action_fails_nobody_else(
    upstream: ScriptedUpstream, cache: RunningCache, caller: Caller, callers: Callers
) -> None:
    """The caller whose action is refused is told so, by no 401, and asks the upstream again; another reads."""
    data = content("refused", 10)
    oid = upstream.add(data)
    for status, expected in ((401, 403), (403, 403), (404, 404), (410, 410), (429, 429), (418, 502), (503, 503)):
        upstream.answers = {f"/store/{oid}": (status, {}, b"")}
        answer = await caller.download(oid, 10)
        assert answer.status_code == expected, status
        assert ("retry-after" in answer.headers) == (status in (429, 503))
    upstream.answers = {}
    asked = len(upstream.batches)
    assert (await callers(cache).download(oid, 10)).content == data
    assert len(upstream.batches) == asked + 1


async def test_ranges_and_conditions(upstream: ScriptedUpstream, cache: RunningCache, caller: Caller) -> None:
    """Parts of an object on its way and of a kept one, its entity tag, and its headers alone."""
    data = content("ranges", 3 * MIB)
    oid = upstream.add(data)
    for _ in ("fetched", "kept"):
        part = await caller.download(oid, len(data), Range=f"bytes={MIB}-{2 * MIB - 1}")
        assert part.status_code == 206
        assert part.headers["content-range"] == f"bytes {MIB}-{2 * MIB - 1}/{3 * MIB}"
        assert part.content == data[MIB : 2 * MIB]
        await until(lambda: cache.kept == {oid}, "the object is kept")
    etag = part.headers["etag"]
    assert (await caller.download(oid, len(data), **{"If-None-Match": etag})).status_code == 304
    assert (await caller.download(oid, len(data), **{"If-Match": '"another"'})).status_code == 412
    assert (await caller.download(oid, len(data), Range=f"bytes={3 * MIB}-")).status_code == 416
    action = await caller.action(oid, len(data))
    head = await caller.http.head(action.href, headers=action.header)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(3 * MIB), b"")
    assert len(upstream.downloads(oid)) == 1


async def test_empty_object(upstream: ScriptedUpstream, cache: RunningCache, caller: Caller) -> None:
    """An object of no bytes is fetched and kept as any other."""
    oid = upstream.add(b"")
    for _ in range(2):
        answer = await caller.download(oid, 0)
        assert (answer.status_code, answer.content) == (200, b"")
    assert cache.kept == {oid}
    assert len(upstream.downloads(oid)) == 1


async def test_another_transfer_or_hash_is_left_to_the_upstream(upstream: ScriptedUpstream, caller: Caller) -> None:
    """Only basic transfers are asked for, and an answer that means something else stays as it is."""
    oid = upstream.add(b"odd")
    headers = {"Authorization": "reader", "Content-Type": "application/vnd.git-lfs+json"}
    for operation in ("download", "upload"):
        for transfers, passed in ((["tus", "basic"], ["basic"]), (["tus"], ["tus"])):
            body = {"operation": operation, "transfers": transfers, "objects": [{"oid": oid, "size": 3}]}
            await caller.http.post(f"{caller.base_url}/objects/batch", json=body, headers=headers)
            assert json.loads(upstream.batches[-1].body) == {**body, "transfers": passed}
    told = f'{{"hash_algo":"sha512","objects":[{{"oid":"{oid}","size":3,"actions":{{}}}}]}}'.encode()
    upstream.answers = {"/objects/batch": (200, {"Content-Type": "application/vnd.git-lfs+json"}, told)}
    answer = await caller.batch((oid, 3))
    assert answer.content == told


async def test_sixteen_callers_of_an_object_that_cannot_be_had(
    upstream: ScriptedUpstream, cache: RunningCache, callers: Callers
) -> None:
    """Each is answered, and nothing of it stays."""
    data = content("never", 1000)
    oid = upstream.add(data[:-1] + b"?", oid_of(data))
    answers = await asyncio.gather(*(callers(cache).download(oid, 1000) for _ in range(16)))
    assert {answer.status_code for answer in answers} == {502}
    assert cache.bytes_on_disk == 0
    assert await cache.metric("towpath_cache_fetches_in_flight") == 0


async def test_actions_live_no_longer_than_those_of_the_upstream(upstream: ScriptedUpstream, caller: Caller) -> None:
    """An action lives a quarter of an hour at most; a time long past means that the upstream's do not expire."""
    cases: list[tuple[dict[str, Any], int, int]] = [
        ({}, 890, 900),
        ({"expires_in": 120}, 110, 120),
        ({"expires_in": 0, "expires_at": "0001-01-01T00:00:00Z"}, 890, 900),
        ({"expires_at": "2999-01-01T00:00:00Z"}, 890, 900),
        ({"expires_at": "soon"}, 890, 900),
        ({"expires_in": None, "header": None}, 890, 900),
    ]
    oid = upstream.add(b"expires")
    for told, least, most in cases:
        upstream.action_fields = told
        [entry] = (await caller.batch((oid, 7))).json()["objects"]
        assert least <= entry["actions"]["download"]["expires_in"] <= most, told
        assert entry["authenticated"] is True, told
