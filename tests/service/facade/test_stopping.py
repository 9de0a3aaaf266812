"""A facade that is told to stop: what runs ends well, and nobody is sent to it any more."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.service.facade.conftest import Inner
from tests.service.facade.own_process import draining, facade_process, place_at
from tests.support.facade import RunningFacade
from tests.support.http import Client, content, oid_of
from tests.support.service_process import wait_ready
from tests.support.waiting import LONG_SECONDS, STEP_SECONDS, until

MIB = 1024**2


async def test_what_runs_ends_well(inner: Inner, facade: RunningFacade, tmp_path: Path) -> None:
    """An upload and a download in the midst at SIGTERM; whoever asks meanwhile is told (trap 34)."""
    big = content("drained download", 40 * MIB)
    parts = [content(f"drained upload {n}", MIB) for n in range(4)]
    sent = b"".join(parts)
    with facade_process(inner, tmp_path, drain_seconds=LONG_SECONDS) as (process, origin):
        await wait_ready(origin)
        place = await place_at(inner, facade, origin)
        oid = await inner.storage.write(place.repository_id, big)
        told = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield parts[0]
            await told.wait()
            for part in parts[1:]:
                yield part

        async with (
            place.client() as alice,
            httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as watching,
            place.client() as idle,
        ):
            assert (await watching.get(f"{origin}/readyz")).json()["status"] == "ready"
            assert (await idle.locks()).status_code == 200
            upload = await alice.action("upload", oid_of(sent), len(sent))
            download = await alice.action("download", oid, len(big))
            assert upload is not None
            assert download is not None
            uploading = asyncio.create_task(alice.put(upload, body(), len(sent)))
            async with alice.http.stream("GET", download.href, headers=download.header) as downloading:
                received = downloading.aiter_bytes(MIB)
                start = await anext(received)
                process.send_signal(signal.SIGTERM)
                # On connections that were open; the listening socket is this test's, and still takes new ones.
                answer = await draining(watching, origin)
                assert answer.headers["connection"] == "close"
                assert answer.headers["retry-after"]
                assert answer.json()["services"] == {"storage": "serving", "locks": "serving"}
                last = await idle.lock("a.psd")
                assert (last.status_code, last.headers["connection"]) == (201, "close")
                assert process.poll() is None
                told.set()
                assert start + b"".join([part async for part in received]) == big
            assert (await uploading).status_code == 200
        assert await asyncio.to_thread(process.wait, STEP_SECONDS) == 0
    async with Client(f"{facade.origin}/{place.name}", "alice", inner.tokens["alice"]) as alice:
        assert (await alice.download(oid_of(sent), len(sent))).content == sent
    lines = [json.loads(line) for line in (tmp_path / "facade.log").read_text().splitlines()]
    assert [line for line in lines if line["level"] in ("warning", "error")] == []


async def test_what_runs_too_long_is_cut_off(inner: Inner, facade: RunningFacade, tmp_path: Path) -> None:
    """After `drain_seconds`; nothing of an upload that was cut is kept."""
    data = content("cut", 2 * MIB)
    before = inner.storage.files()
    ended = asyncio.Event()
    with facade_process(inner, tmp_path, drain_seconds=0.5) as (process, origin):
        await wait_ready(origin)
        place = await place_at(inner, facade, origin)

        async def body() -> AsyncIterator[bytes]:
            yield data[:MIB]
            process.send_signal(signal.SIGTERM)
            await ended.wait()
            yield data[MIB:]

        async with place.client() as alice:
            action = await alice.action("upload", oid_of(data), len(data))
            assert action is not None
            uploading = asyncio.create_task(alice.put(action, body(), len(data)))
            assert await asyncio.to_thread(process.wait, STEP_SECONDS) == 0
            ended.set()
            with pytest.raises(httpx.TransportError):
                await uploading
    await until(lambda: inner.storage.files() == before)


async def test_nobody_is_waited_for_where_nothing_runs(inner: Inner, tmp_path: Path) -> None:
    """An idle connection does not hold up the end until `drain_seconds`."""
    with facade_process(inner, tmp_path, drain_seconds=LONG_SECONDS) as (process, origin):
        await wait_ready(origin)
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as idle:
            await idle.get(f"{origin}/healthz")
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, STEP_SECONDS) == 0
