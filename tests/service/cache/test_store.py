"""The folder of a cache: its bound, its order, and a restart."""

import asyncio
import os
import random
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.service.cache.conftest import MIB, Caller, Callers
from tests.support.cache import RunningCache, running_cache
from tests.support.damage import DAMAGE, DAMAGED_SIZE
from tests.support.http import content, oid_of
from tests.support.scripted_upstream import ScriptedUpstream
from tests.support.service_process import service_process
from tests.support.waiting import STEP_SECONDS, until

KIB = 1024
BOUND = 3 * MIB


def _is_kept(cache: RunningCache, oid: str) -> bool:
    return oid in cache.kept


async def _sample(cache: RunningCache, found: list[int]) -> None:
    while True:
        found.append(cache.bytes_on_disk)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("cache_settings", [{"cache_bytes": BOUND}])
async def test_the_bound_holds_while_many_fetch(
    upstream: ScriptedUpstream, cache: RunningCache, callers: Callers
) -> None:
    """Twelve readers of fifty objects of many sizes, several times what fits: never more on the disk than allowed."""
    drawn = random.Random(5)  # noqa: S311 - only varied, and the same at each run
    objects = [content(f"object {number}", drawn.randrange(1, 600 * KIB)) for number in range(50)]
    for data in objects:
        upstream.add(data)
    found: list[int] = []
    sampling = asyncio.create_task(_sample(cache, found))

    async def read(number: int) -> None:
        caller, order = callers(cache), random.Random(number)  # noqa: S311 - see above
        for data in order.sample(objects, 25):
            answer = await caller.download(oid_of(data), len(data))
            if answer.status_code == 503:
                # It made room for another between the batch and the download; a client asks again.
                assert "ask by a new batch request" in answer.text
                answer = await caller.download(oid_of(data), len(data))
            assert answer.content == data

    await asyncio.gather(*(read(number) for number in range(12)))
    sampling.cancel()
    assert max(found) <= BOUND
    assert max(found) > BOUND // 2
    assert await cache.metric("towpath_cache_evictions_total") > 0
    assert await cache.metric("towpath_cache_bytes") == cache.bytes_on_disk


@pytest.mark.parametrize("cache_settings", [{"cache_bytes": MIB}])
async def test_an_object_larger_than_the_cache(upstream: ScriptedUpstream, cache: RunningCache, caller: Caller) -> None:
    """It passes through and leaves nothing; where its hash is wrong, it is cut before its end."""
    data, wrong = content("large", 3 * MIB), content("large and wrong", 3 * MIB)
    oid, other = upstream.add(data), upstream.add(wrong[:-1] + b"?", oid_of(wrong))
    answer = await caller.download(oid, len(data), Range="bytes=100-")
    assert (answer.status_code, answer.content) == (200, data)
    with pytest.raises(httpx.RemoteProtocolError):
        await caller.download(other, len(wrong))
    assert cache.bytes_on_disk == 0
    assert await cache.metric("towpath_cache_downloads_total", source="passed") == 2


@pytest.mark.parametrize("cache_settings", [{"cache_bytes": 1300 * KIB}])
async def test_the_least_recently_used_make_room(
    upstream: ScriptedUpstream, cache: RunningCache, caller: Caller
) -> None:
    """The object that was read again stays, and the one that was not goes."""
    objects = [content(f"lru {number}", 400 * KIB) for number in range(4)]
    oids = [upstream.add(data) for data in objects]
    for number in (0, 1, 2, 0, 3):
        answer = await caller.download(oids[number], 400 * KIB)
        assert answer.content == objects[number]
        # A reader has left when the next one comes.
        await until(partial(_is_kept, cache, oids[number]), "it is kept")
    assert cache.kept == {oids[0], oids[2], oids[3]}


async def test_a_restart_keeps_what_is_there(upstream: ScriptedUpstream, callers: Callers, tmp_path: Path) -> None:
    """Objects and their order outlive a kill; what was on its way is swept, and a damaged file is fetched anew."""
    objects = [content(f"restart {number}", 400 * KIB) for number in range(3)]
    oids = [upstream.add(data) for data in objects]
    async with running_cache(tmp_path, upstream.origin) as cache:
        for oid in oids:
            await callers(cache).download(oid, 400 * KIB)
        await until(lambda: cache.kept == set(oids), "all are kept")
        cache.kill()
    for age, oid in enumerate(oids):
        os.utime(cache.path(oid), (1_000 - age, 1_000 - age))
    (cache.folder / "fetches" / "left").write_bytes(b"half")
    async with running_cache(tmp_path, upstream.origin, cache_bytes=850 * KIB) as cache:
        assert list((cache.folder / "fetches").iterdir()) == []
        # The oldest has made room.
        assert cache.kept == set(oids[:2])
        cache.kill()
    os.truncate(cache.path(oids[0]), 5)
    async with running_cache(tmp_path, upstream.origin) as cache:
        caller = callers(cache)
        for number in (0, 1):
            assert (await caller.download(oids[number], 400 * KIB)).content == objects[number]
    assert [len(upstream.downloads(oid)) for oid in oids] == [2, 1, 1]


@pytest.mark.parametrize("cache_settings", [{"cache_right_seconds": 0}])
async def test_a_file_that_changes_is_dropped(upstream: ScriptedUpstream, cache: RunningCache, caller: Caller) -> None:
    """Something that cuts a file of the cache while it runs costs a fetch, and nobody gets its rest."""
    data = content("cut", 400 * KIB)
    oid = upstream.add(data)
    await caller.download(oid, len(data))
    await until(lambda: cache.kept == {oid}, "it is kept")
    os.truncate(cache.path(oid), 5)
    assert (await caller.download(oid, len(data))).content == data
    assert await cache.metric("towpath_cache_damaged_total", place="kept") == 1
    assert len(upstream.downloads(oid)) == 2


async def _keep_damaged(kind: str, cache: RunningCache, caller: Caller, data: bytes) -> None:
    """Have an object kept, and damage its file."""
    oid = oid_of(data)
    await caller.download(oid, len(data))
    await until(lambda: oid in cache.kept, "it is kept")
    DAMAGE[kind](cache.path(oid))


@pytest.mark.parametrize("cache_settings", [{"cache_right_seconds": 0}])
async def test_a_damaged_file_is_not_sent(upstream: ScriptedUpstream, cache: RunningCache, caller: Caller) -> None:
    """A caller gets an object whose file is damaged in any way all the same, and the object is kept again."""
    for number, kind in enumerate(DAMAGE, 1):
        data = content(f"damaged: {kind}", DAMAGED_SIZE)
        oid, path = upstream.add(data), cache.path(oid_of(data))
        await _keep_damaged(kind, cache, caller, data)
        for _ in range(2):
            assert (await caller.download(oid, len(data))).content == data, kind
        assert await cache.metric("towpath_cache_damaged_total", place="kept") == number, kind
        await until(partial(_has, path, data), f"it is kept again: {kind}")
        assert len(upstream.downloads(oid)) == 2, kind


def _has(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


async def test_a_damaged_file_by_a_remembered_right(
    upstream: ScriptedUpstream, cache: RunningCache, caller: Caller
) -> None:
    """The caller's action leads to the cache alone: the caller is told to ask again, and the upstream is asked."""
    data = content("damaged and remembered", DAMAGED_SIZE)
    oid = upstream.add(data)
    await _keep_damaged("the first bit", cache, caller, data)
    refused = await caller.download(oid, len(data))
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) <= 30
    assert (await caller.download(oid, len(data))).content == data
    assert len(upstream.downloads(oid)) == 2


async def test_a_large_damaged_file_is_cut(upstream: ScriptedUpstream, cache: RunningCache, caller: Caller) -> None:
    """An object of several pieces is found to be wrong while it is sent: nobody gets its end; the next try works."""
    data = content("large and damaged", 3 * MIB)
    oid = upstream.add(data)
    await _keep_damaged("the first bit", cache, caller, data)
    with pytest.raises(httpx.RemoteProtocolError):
        await caller.download(oid, len(data))
    assert (await caller.download(oid, len(data))).content == data
    assert len(upstream.downloads(oid)) == 2


async def test_one_process_works_on_a_folder(upstream: ScriptedUpstream, cache: RunningCache, tmp_path: Path) -> None:
    """A second one ends with the reason."""
    settings = {"listen": "127.0.0.1:0", "cache_upstream": upstream.origin, "cache_directory": cache.folder}
    with service_process("cache", tmp_path / "second.log", settings=settings) as second:
        assert await asyncio.to_thread(second.wait, STEP_SECONDS) == 1
    assert "another process works on it" in (tmp_path / "second.log").read_text()


async def test_tokens_outlive_a_restart(upstream: ScriptedUpstream, callers: Callers, tmp_path: Path) -> None:
    """The key is in the folder, for its owner alone; caches with one key of their own take each other's tokens."""
    data = content("tokens", 10)
    oid = upstream.add(data)
    async with running_cache(tmp_path, upstream.origin) as cache:
        action = await callers(cache).action(oid, 10)
        assert (cache.folder / "key").stat().st_mode & 0o777 == 0o600
    async with running_cache(tmp_path, upstream.origin) as cache:
        moved = action.href.replace(action.href.rpartition("/far/")[0], cache.origin)
        assert (await callers(cache).http.get(moved, headers=action.header)).content == data
    async with running_cache(tmp_path, upstream.origin, cache_key="another key, of the operator's own") as cache:
        moved = action.href.replace(action.href.rpartition("/far/")[0], cache.origin)
        assert (await callers(cache).http.get(moved, headers=action.header)).status_code == 403
