"""A facade that is told to stop: what runs ends well, and nobody is sent to it any more."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest
from google.protobuf.message import Message

from tests.service.facade import raw
from tests.service.facade.conftest import Inner
from tests.service.facade.inner_failures import DATA, OID, running_scripted
from tests.service.facade.own_process import draining, facade_process, place_at
from tests.support.facade import RunningFacade
from tests.support.http import MEDIA_TYPE, Client, content, oid_of
from tests.support.loop import never
from tests.support.service_process import wait_ready
from tests.support.waiting import LONG_SECONDS, STEP_SECONDS, until

MIB = 1024**2


async def test_what_runs_ends_well(inner: Inner, facade: RunningFacade, tmp_path: Path) -> None:
    """An upload and a download in the midst at SIGTERM; whoever asks meanwhile is told (trap-34)."""
    big = content("drained download", 40 * MIB)
    parts = [content(f"drained upload {n}", MIB) for n in range(4)]
    sent = b"".join(parts)
    with facade_process(inner, tmp_path, drain_seconds=LONG_SECONDS) as (process, origin):
        await wait_ready(origin)
        place = await place_at(inner, facade, origin)
        await inner.storage.write(place.repository_id, big)
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
            upload, download = await alice.offered("upload", sent), await alice.offered("download", big)
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
    # On a machine under load an answer of the lock service may be late, whether the facade is told to stop or not.
    lines = [line for line in lines if line["event"] != "changes of access are not known"]
    assert [line for line in lines if line["level"] in ("warning", "error")] == []


async def test_what_runs_too_long_is_cut_off(inner: Inner, facade: RunningFacade, tmp_path: Path) -> None:
    """After `drain_seconds`, and told so: 503, by when to come again. Nothing of an upload that was cut is kept."""
    data = content("cut", 2 * MIB)
    before = inner.storage.files()
    with facade_process(inner, tmp_path, drain_seconds=0.5) as (process, origin):
        await wait_ready(origin)
        place = await place_at(inner, facade, origin)
        action = await place.action("upload", data)
        async with raw.connected(place.facade) as (reader, writer):
            writer.write(raw.head(action, "PUT", Content_Length=str(len(data)), Expect="100-continue"))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(data[:MIB])
            process.send_signal(signal.SIGTERM)
            status, headers, body = await raw.answer(reader)
        assert await asyncio.to_thread(process.wait, STEP_SECONDS) == 0
    _check_cut_off(status, headers, body)
    await until(lambda: inner.storage.files() == before)
    assert _errors(tmp_path) == []


async def test_a_batch_that_is_cut_off_is_told_so(inner: Inner, tmp_path: Path) -> None:
    """As everything is that has no answer yet; it is no error of ours, and no traceback is in the log."""
    asked = asyncio.Event()

    async def hang(_request: object) -> Message:
        asked.set()
        await never()

    async with running_scripted(tmp_path) as (scripted, address):
        scripted.answers["CheckAccess"] = hang
        settings = {"storage_address": address, "locks_address": address, "rpc_seconds": LONG_SECONDS}
        with facade_process(inner, tmp_path, drain_seconds=0.5, **settings) as (process, origin):
            await wait_ready(origin)
            async with Client(f"{origin}/demo/assets", "alice", "token") as alice:
                batches = [asyncio.create_task(alice.batch("download", (OID, len(DATA)))) for _ in range(3)]
                await asked.wait()
                process.send_signal(signal.SIGTERM)
                for answer in await asyncio.gather(*batches):
                    _check_cut_off(answer.status_code, answer.headers, answer.content)
            assert await asyncio.to_thread(process.wait, STEP_SECONDS) == 0
    assert _errors(tmp_path) == []


async def test_a_download_that_is_cut_off_ends_at_once(
    inner: Inner, facade: RunningFacade, tmp_path: Path, http: httpx.AsyncClient
) -> None:
    """Its head has said 200, so that only the end of the connection tells that it is not whole (trap-2)."""
    data = content("cut download", 40 * MIB)
    with facade_process(inner, tmp_path, drain_seconds=0.5) as (process, origin):
        await wait_ready(origin)
        place = await place_at(inner, facade, origin)
        action = await place.held(data)
        async with http.stream("GET", action.href, headers=action.header) as answer:
            received = answer.aiter_bytes(MIB)
            await anext(received)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, STEP_SECONDS) == 0
            with pytest.raises(httpx.TransportError):
                [part async for part in received]
    assert _errors(tmp_path) == []


def _check_cut_off(status: int, headers: Mapping[str, str], body: bytes) -> None:
    assert status == 503
    assert int(headers["retry-after"]) > 0
    assert headers["connection"] == "close"
    assert headers["content-type"] == MEDIA_TYPE
    assert json.loads(body)["message"]


def _errors(folder: Path) -> list[str]:
    """Return the lines of a facade's log that tell of an error, or are no lines of the log."""
    return [
        line
        for line in (folder / "facade.log").read_text().splitlines()
        if '"level": "error"' in line or line[0] != "{"
    ]


async def test_nobody_is_waited_for_where_nothing_runs(inner: Inner, tmp_path: Path, http: httpx.AsyncClient) -> None:
    """An idle connection does not hold up the end until `drain_seconds`."""
    with facade_process(inner, tmp_path, drain_seconds=LONG_SECONDS) as (process, origin):
        await wait_ready(origin)
        await http.get(f"{origin}/healthz")
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, STEP_SECONDS) == 0
