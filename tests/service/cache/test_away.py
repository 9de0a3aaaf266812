"""The upstream away: downloads of kept objects go on for those whose right is remembered, all else waits."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import httpx
import pytest

from services.cache.settings import CacheSettings
from services.cache.upstream import Upstream, UpstreamAway
from tests.service.cache.conftest import Caller, Callers, Office
from tests.support.cache import RunningCache, running_cache
from tests.support.http import MEDIA_TYPE, content, oid_of
from tests.support.scripted_upstream import ScriptedUpstream
from tests.support.waiting import until, until_answer


@pytest.fixture
def patience_seconds() -> float:
    """The seconds after which the cache gives up on the upstream."""
    return 1


async def _black_hole(office: Office) -> None:
    office.proxy.stop_flow()


async def _gone(office: Office) -> None:
    await office.proxy.close()


def _answering(status: int) -> Callable[[Office], Awaitable[None]]:
    async def answer(office: Office) -> None:
        office.proxy.answer = (status, b"<html>a proxy's page</html>")

    return answer


AWAY = {
    "black hole": _black_hole,
    "gone": _gone,
    "502": _answering(502),
    "503": _answering(503),
    "504": _answering(504),
}


def _check_unavailable(answer: httpx.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["retry-after"]) > 0
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert "does not answer" in answer.json()["message"]
    assert "objects" not in answer.json()


@pytest.mark.parametrize("kind", AWAY)
async def test_an_upstream_that_is_away(kind: str, office: Office) -> None:
    """However it is away: no request hangs, none gets 404, and the right that is remembered serves."""
    kept, absent = content("kept", 100_000), content("absent", 1000)
    await office.hold(kept)
    await office.hold(absent)
    async with office.client() as alice, office.client("bob") as bob:
        assert (await alice.download(oid_of(kept), len(kept))).content == kept
        assert (await alice.batch("download", (oid_of(absent), len(absent)))).status_code == 200
        assert (await alice.lock("a")).status_code == 201
        await AWAY[kind](office)
        async with asyncio.timeout(60):
            assert (await alice.download(oid_of(kept), len(kept))).content == kept
            mixed = await alice.batch("download", (oid_of(kept), len(kept)), (oid_of(absent), len(absent)))
            assert mixed.status_code == 200
            here, away = mixed.json()["objects"]
            assert here["actions"]["download"]["href"].startswith(office.cache.origin)
            assert away["error"]["code"] == 503
            for answer in (
                await alice.batch("download", (oid_of(absent), len(absent))),
                await alice.batch("upload", (oid_of(b"new"), 3)),
                await alice.lock("b"),
                await alice.locks(),
                await alice.post("locks/verify"),
                await alice.unlock("1"),
                await bob.batch("download", (oid_of(kept), len(kept))),
            ):
                _check_unavailable(answer)
            nameless = {"Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE}
            asked = {"operation": "download", "objects": [{"oid": oid_of(kept), "size": len(kept)}]}
            challenge = await alice.http.post(f"{alice.base_url}/objects/batch", json=asked, headers=nameless)
            assert (challenge.status_code, "lfs-authenticate" in challenge.headers) == (401, True)
            _check_unavailable(await alice.http.get(f"{alice.base_url}/locks", headers=nameless))
        ready = (await alice.http.get(f"{office.cache.origin}/readyz")).json()
        assert ready == {"status": "ready", "services": {"upstream": "not answering"}}


async def test_it_comes_back(office: Office) -> None:
    """The upstream is asked again as soon as it answers."""
    data = content("back", 1000)
    await office.hold(data)
    async with office.client() as alice:
        office.proxy.answer = (503, b"")
        _check_unavailable(await alice.post("locks/verify"))
        office.proxy.answer = None
        assert (await alice.post("locks/verify")).status_code == 200
        assert (await alice.download(oid_of(data), len(data))).content == data


async def _told(caller: Caller, oid: str) -> tuple[int, str | None]:
    """Return the status of a batch, and how long its answer lets the client wait."""
    answer = await caller.batch((oid, 1000))
    return answer.status_code, answer.headers.get("retry-after")


async def test_rights_end_though_it_is_away(upstream: ScriptedUpstream, callers: Callers, tmp_path: Path) -> None:
    """Remembered rights serve for as long as the setting allows, and not at all with 0."""
    data = content("ends", 1000)
    oid = upstream.add(data)
    for seconds in (0, 3):
        folder = tmp_path / str(seconds)
        async with running_cache(folder, upstream.origin, cache_right_seconds=0, cache_away_seconds=seconds) as cache:
            caller = callers(cache)
            assert (await caller.download(oid, 1000)).content == data
            upstream.answers = {"/objects/batch": (503, {"Retry-After": "7"}, b"")}
            if seconds:
                assert (await caller.batch((oid, 1000))).status_code == 200
            await until_answer((503, "7"), partial(_told, caller, oid))
        upstream.answers = {}


@pytest.mark.parametrize("cache_settings", [{"cache_right_seconds": 0}])
async def test_a_refusal_is_remembered_at_once(upstream: ScriptedUpstream, caller: Caller) -> None:
    """A caller who was refused since has no right left when the upstream goes away."""
    data = content("refused", 1000)
    oid = upstream.add(data)
    assert (await caller.download(oid, 1000)).content == data
    upstream.readers.clear()
    assert (await caller.batch((oid, 1000))).status_code == 401
    upstream.answers = {"/objects/batch": (502, {}, b"")}
    assert (await caller.batch((oid, 1000))).status_code == 503
    upstream.answers = {}
    upstream.readers.add("reader")
    del upstream.objects[oid]
    assert (await caller.batch((oid, 1000))).json()["objects"][0]["error"]["code"] == 404
    upstream.answers = {"/objects/batch": (504, {}, b"")}
    assert (await caller.batch((oid, 1000))).status_code == 503


@pytest.mark.parametrize("cache_settings", [{"cache_right_seconds": 0}])
async def test_strangers_of_a_public_repository(
    upstream: ScriptedUpstream, cache: RunningCache, caller: Caller
) -> None:
    """One who is refused something odd ends no right of the others, and none of them has that of a query."""
    oid = upstream.add(b"bytes")
    upstream.readers = {""}
    headers = {"Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE}
    plain = {"operation": "download", "objects": [{"oid": oid, "size": 5}]}
    http = caller.http

    async def ask(body: object, query: str = "") -> int:
        url = f"{cache.origin}/far/film/objects/batch{query}"
        return (await http.post(url, json=body, headers=headers)).status_code

    async def is_remembered() -> bool:
        """Tell whether strangers have a right while the upstream is away."""
        before, upstream.answers = upstream.answers, {"/objects/batch": (502, {}, b"")}
        status = await ask(plain)
        upstream.answers = before
        # So that it is asked again at once.
        await http.get(f"{cache.origin}/far/film/locks")
        return status == 200

    answer = await http.post(f"{cache.origin}/far/film/objects/batch", json=plain, headers=headers)
    action = answer.json()["objects"][0]["actions"]["download"]
    assert (await http.get(action["href"], headers=action["header"])).content == b"bytes"
    await until(lambda: cache.kept == {oid}, "it is kept")
    upstream.readers.clear()
    for odd in (
        {**plain, "operation": "upload"},
        {**plain, "Operation": "upload"},
        {**plain, "objects": [{"oid": oid, "size": 5, "Oid": oid_of(b"")}]},
        {**plain, "objects": []},
    ):
        assert (await ask(odd), await is_remembered()) == (401, True), odd
    upstream.answers = {"?private_token=x": (401, {}, b"")}
    assert (await ask(plain, "?private_token=x"), await is_remembered()) == (401, True)
    for status in (403, 404):
        upstream.answers = {"/objects/batch": (status, {}, b"")}
        assert (await ask(plain), await is_remembered()) == (status, True)
    entry = {"oid": oid, "size": 4, "error": {"code": 422, "message": "size: the object has 5 bytes"}}
    said = json.dumps({"objects": [entry]}).encode()
    upstream.answers = {"/objects/batch": (200, {"Content-Type": MEDIA_TYPE}, said)}
    assert (await ask({**plain, "objects": [{"oid": oid, "size": 4}]}), await is_remembered()) == (200, True)
    upstream.answers = {}
    assert (await ask(plain), await is_remembered()) == (401, False)


async def test_what_one_client_may_cause(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    """The upstream is not away for all after its own answer, nor after an upload or a download that breaks off."""
    data = content("broken off", 100_000)
    upstream.add(data)
    told = json.dumps({"message": "too much"}).encode()
    upstream.answers = {"/own": (503, {"Content-Type": f"{MEDIA_TYPE}; charset=utf-8"}, told), "/proxy": (503, {}, b"")}
    breaking = await asyncio.start_server(lambda _reader, writer: writer.transport.abort(), "127.0.0.1", 0)
    port = breaking.sockets[0].getsockname()[1]

    async def sent() -> AsyncIterator[bytes]:
        yield data

    async def is_away_after(origin: str, method: str, path: str, body: bytes | AsyncIterator[bytes] | None) -> bool:
        values = {"cache_upstream": origin, "cache_directory": tmp_path}
        async with Upstream.open(CacheSettings.model_validate(values)) as tried:
            try:
                async with tried.request(method, tried.url(path), [], body) as response:
                    await response.aread()
            except UpstreamAway:
                return tried.is_away
        raise AssertionError("it is there")

    async with breaking:
        other = f"http://127.0.0.1:{port}"
        assert not await is_away_after(upstream.origin, "POST", "/own", b"{}")
        assert await is_away_after(upstream.origin, "POST", "/proxy", b"{}")
        upstream.cuts = [50_000]
        assert not await is_away_after(upstream.origin, "GET", f"/store/{oid_of(data)}", None)
        assert not await is_away_after(other, "PUT", "/store/x", sent())
        assert await is_away_after(other, "POST", "/locks", b"{}")
    assert await is_away_after(other, "PUT", "/store/x", sent()), "nobody listens any more"


async def test_one_request_without_an_answer(tmp_path: Path) -> None:
    """An upstream that is silent on one request is away only if it has answered no other since."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for line in reader:
            if line.startswith(b"GET /quick "):
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        origin = "http://127.0.0.1:{1}".format(*server.sockets[0].getsockname())
        values = {"cache_upstream": origin, "cache_directory": tmp_path}
        async with Upstream.open(CacheSettings.model_validate(values)) as tried:

            async def ask(path: str) -> None:
                async with tried.request("GET", tried.url(path), [], seconds=0.5):
                    pass

            for others in (True, False):
                long = asyncio.create_task(ask("/long"))
                # From here on the long one has begun.
                await asyncio.sleep(0)
                if others:
                    await ask("/quick")
                with pytest.raises(UpstreamAway):
                    await long
                assert tried.is_away is not others


@pytest.mark.parametrize("cache_settings", [{"cache_right_seconds": 0}])
async def test_a_store_that_is_away_takes_nothing_else_along(
    upstream: ScriptedUpstream, cache: RunningCache, caller: Caller
) -> None:
    """An outage of the host of objects alone: downloads of absent ones fail, and batches go on."""
    data = content("store", 1000)
    oid = upstream.add(data)
    upstream.store_origin = "http://127.0.0.1:9"
    answer = await caller.download(oid, 1000)
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    assert (await caller.http.get(f"{cache.origin}/readyz")).json()["services"] == {"upstream": "serving"}
    upstream.store_origin = ""
    assert (await caller.download(oid, 1000)).content == data


async def test_an_evicted_object_is_asked_for_again(
    upstream: ScriptedUpstream, cache: RunningCache, caller: Caller
) -> None:
    """An action that was made from memory has none of the upstream: its client is told to ask again, and gets it."""
    data = content("evicted", 1000)
    oid = upstream.add(data)
    assert (await caller.download(oid, 1000)).content == data
    await until(lambda: cache.kept == {oid}, "it is kept")
    remembered = await caller.action(oid, 1000)
    assert len(upstream.batches) == 1
    cache.path(oid).unlink()
    lost = await caller.http.get(remembered.href, headers=remembered.header)
    assert (lost.status_code, "retry-after" in lost.headers) == (503, True)
    assert (await caller.download(oid, 1000)).content == data
    assert len(upstream.batches) == 2
