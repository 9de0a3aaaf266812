"""Downloads from the disk that the facade shares with storage: the bytes go by the kernel, past both processes."""

import asyncio
import json
import os
import shutil
import signal
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY
from towpath.storage.v1 import storage_service_pb2 as pb

from services.facade.auth.action_tokens import Operation
from tests.service.facade import raw
from tests.service.facade.conftest import Inner, Place, new_place
from tests.service.facade.inner_failures import DATA, OID, Running, action_of, check_error, running_scripted
from tests.service.facade.own_process import draining, facade_process, place_at
from tests.support.certificates import write_certificate
from tests.support.facade import RunningFacade, running_facade
from tests.support.http import Action, Client, content, oid_of
from tests.support.service_process import wait_ready
from tests.support.waiting import LONG_SECONDS, STEP_SECONDS, until, until_answer

MIB = 1024**2
BIG = 20 * MIB
"""More than fits on the way between two processes."""


@dataclass
class Shared:
    """A repository, and the facade in front of it, which shares the disk with storage."""

    place: Place
    process: subprocess.Popen[bytes]
    log: Path

    async def action(self, data: bytes) -> Action:
        """Store an object, and return the action that downloads it."""
        return await self.place.held(data)

    def open_files(self, data: bytes) -> list[str]:
        """Return which files of an object the facade has open."""
        oid, found = oid_of(data), []
        for link in Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                found.append(str(link.readlink()))
            except FileNotFoundError:
                continue
        return [path for path in found if oid in path]

    def lines(self, data: bytes) -> list[dict[str, Any]]:
        """Return the log lines of an object's downloads."""
        oid = oid_of(data)
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if oid in line]
        return [line for line in lines if line.get("path", "").endswith(oid) and line["method"] == "GET"]


@asynccontextmanager
async def _shared(inner: Inner, facade: RunningFacade, folder: Path, **settings: object) -> AsyncIterator[Shared]:
    with facade_process(inner, folder, shared_storage_path=inner.storage.root, **settings) as (process, origin):
        await wait_ready(origin)
        yield Shared(await place_at(inner, facade, origin), process, folder / "facade.log")


@pytest.fixture(scope="module")
async def running(
    inner: Inner, facade: RunningFacade, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Shared]:
    """One for all tests in which nothing goes wrong with the disk."""
    async with _shared(inner, facade, tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture
async def shared(running: Shared, inner: Inner, facade: RunningFacade) -> Shared:
    """The same, with a repository for one test."""
    return replace(running, place=await place_at(inner, facade, running.place.facade.origin))


def _relayed() -> float:
    """Return how many objects storage has sent."""
    labels = {"method": "/towpath.storage.v1.StorageService/ReadObject", "status": "OK"}
    return REGISTRY.get_sample_value("towpath_grpc_requests_total", labels) or 0


async def _wait_counted(place: Place, size: int) -> None:
    """Wait until so many bytes of a repository count as read; a count that is just being kept may be told as less."""
    request = pb.GetUsageRequest(repository_ids=[place.repository_id])

    async def counted() -> int:
        usage = await place.inner.storage.stub.GetUsage(request, timeout=STEP_SECONDS)
        return usage.repositories[0].bytes_out_today

    await until_answer(size, counted)


@pytest.mark.parametrize("size", [0, 1, 256 * 1024, 256 * 1024 + 1, MIB, MIB + 1, 5_000_000])
async def test_an_object_comes_from_the_disk(shared: Shared, size: int) -> None:
    """Byte for byte, counted once by storage and by the facade, and storage sends none of them."""
    data = content(f"shared {size}", size)
    action = await shared.action(data)
    relayed = _relayed()
    answer = await action.get()
    assert answer.content == data
    assert answer.headers["content-length"] == str(size)
    await _wait_counted(shared.place, size)
    await until(lambda: len(shared.lines(data)) == 1)
    [line] = shared.lines(data)
    assert (line["status"], line["bytes_out"]) == (200, size)
    assert _relayed() == relayed
    await until(lambda: not shared.open_files(data))


async def test_many_at_once_come_from_the_disk(shared: Shared, http: httpx.AsyncClient) -> None:
    """Each its own bytes, and one that was removed is told to be so, whoever asks beside."""
    datas = [content(f"many {number}", 1000 + number) for number in range(24)]
    actions = [await shared.action(data) for data in datas]
    relayed = _relayed()
    await shared.place.inner.storage.delete(shared.place.repository_id, oid_of(datas[5]), reason="leaked")
    early = 0

    async def is_removed() -> bool:
        nonlocal early
        answer = await http.get(actions[5].href, headers=actions[5].header)
        early += len(datas[5]) if answer.status_code == 200 else 0
        return answer.status_code == 410

    # It may be read for a second more.
    await until(is_removed)
    answers = await asyncio.gather(*(http.get(action.href, headers=action.header) for action in actions))
    assert [answer.status_code for answer in answers] == [200] * 5 + [410] + [200] * 18
    assert [answer.content for answer in answers[:5] + answers[6:]] == datas[:5] + datas[6:]
    await _wait_counted(shared.place, early + sum(map(len, datas[:5] + datas[6:])))
    assert _relayed() == relayed


async def test_ranges_come_from_the_disk(shared: Shared, http: httpx.AsyncClient) -> None:
    """Those bytes and no others; no more than those count as read."""
    data = content("shared ranges", 3_000_000)
    action = await shared.action(data)
    relayed = _relayed()
    wanted = 0
    for start, end in ((0, 1), (5, 10), (1, 2_000_000), (1_500_000, 3_000_000), (2_999_999, 3_000_000)):
        asked = {"Range": f"bytes={start}-{end - 1}"}
        answer = await http.get(action.href, headers={**action.header, **asked})
        assert (answer.status_code, answer.content) == (206, data[start:end])
        assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/3000000"
        wanted += end - start
    await _wait_counted(shared.place, wanted)
    assert _relayed() == relayed


async def test_requests_that_come_at_once_are_answered_in_order(shared: Shared) -> None:
    """Of which some are sent by the kernel and some are not, on one connection that stays."""
    objects = [content(f"pipelined {n}", size) for n, size in enumerate((3 * MIB, 100, BIG, MIB + 1, 0))]
    actions = [await shared.action(data) for data in objects]
    heads = [raw.head(action, "GET") for action in actions]
    unknown = raw.head(Action(actions[0].href, {}), "GET")
    async with raw.connected(shared.place.facade) as (reader, writer):
        for _ in range(2):
            writer.write(heads[0] + unknown + b"".join(heads[1:]))
            assert (await raw.answer(reader))[::2] == (200, objects[0])
            assert (await raw.answer(reader))[0] == 403
            for data in objects[1:]:
                assert (await raw.answer(reader))[::2] == (200, data)


async def test_many_at_once(shared: Shared, http: httpx.AsyncClient) -> None:
    """Each gets its own bytes."""
    objects = [content(f"at once {n}", 6 * MIB + n) for n in range(8)]
    actions = [await shared.action(data) for data in objects]
    answers = await asyncio.gather(*(http.get(action.href, headers=action.header) for action in actions * 2))
    assert [answer.content for answer in answers] == objects * 2


async def test_an_object_deleted_meanwhile_comes_whole(shared: Shared) -> None:
    """A file that is open outlives its removal, and goes when the download ends."""
    data = content("deleted meanwhile", BIG)
    action = await shared.action(data)
    storage = shared.place.inner.storage
    async with raw.downloading(shared.place.facade, action) as reader:
        await storage.delete(shared.place.repository_id, oid_of(data))
        await storage.purge(shared.place.repository_id, oid_of(data))
        await until(lambda: not storage.path(oid_of(data)).exists())
        assert shared.open_files(data)
        assert await reader.readexactly(len(data)) == data
    assert (await action.get()).status_code == 410
    await until(lambda: not shared.open_files(data))


async def test_a_client_that_goes_away_ends_its_download(shared: Shared) -> None:
    """Its file is closed, and its line tells what it was sent."""
    data = content("gone away", BIG)
    action = await shared.action(data)
    async with raw.downloading(shared.place.facade, action):
        await until(lambda: bool(shared.open_files(data)))
    await until(lambda: not shared.open_files(data))
    await until(lambda: len(shared.lines(data)) == 1)
    assert shared.lines(data)[0]["bytes_out"] < len(data)


async def test_slow_clients_are_served_and_silent_ones_are_not(
    inner: Inner, facade: RunningFacade, tmp_path: Path
) -> None:
    """A slow reader must get everything, but a client that stops reading is cut off and its file is closed."""
    data = content("slow", BIG)
    async with _shared(inner, facade, tmp_path, body_idle_seconds=1.5) as shared:
        action = await shared.action(data)
        async with (
            raw.downloading(shared.place.facade, action) as slow,
            raw.downloading(shared.place.facade, action) as silent,
        ):
            got = b""
            for _ in range(BIG // MIB):
                got += await slow.readexactly(MIB)
                # The slow one's slowness; the other is silent meanwhile.
                await asyncio.sleep(0.12)
            assert got == data
            await until(lambda: not shared.open_files(data))
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await silent.readexactly(len(data))
        assert "the client reads nothing" in shared.log.read_text()


async def test_what_runs_at_a_stop_ends_well(
    inner: Inner, facade: RunningFacade, tmp_path: Path, http: httpx.AsyncClient
) -> None:
    """A download in the midst at SIGTERM comes whole, and then the process ends."""
    data = content("shared drain", BIG)
    async with _shared(inner, facade, tmp_path, drain_seconds=LONG_SECONDS) as shared:
        action = await shared.action(data)
        origin = shared.place.facade.origin
        await http.get(f"{origin}/readyz")
        async with raw.downloading(shared.place.facade, action) as reader:
            shared.process.send_signal(signal.SIGTERM)
            await draining(http, origin)
            assert await reader.readexactly(len(data)) == data
            assert await reader.read() == b""
        assert await asyncio.to_thread(shared.process.wait, STEP_SECONDS) == 0


async def test_what_runs_too_long_at_a_stop_is_cut_off(inner: Inner, facade: RunningFacade, tmp_path: Path) -> None:
    """A client that does not read does not hold the process up."""
    data = content("shared cut", BIG)
    async with _shared(inner, facade, tmp_path, drain_seconds=0.5) as shared:
        action = await shared.action(data)
        async with raw.downloading(shared.place.facade, action) as reader:
            shared.process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(shared.process.wait, STEP_SECONDS) == 0
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(len(data))


@asynccontextmanager
async def _beside(inner: Inner, folder: Path, **settings: str) -> AsyncIterator[Place]:
    """Run a facade for one test, which reads objects in `folder`; yield a repository behind it."""
    async with inner.running_facade(shared_storage_path=folder, **settings) as facade:
        yield await new_place(facade, inner)


async def _stored(place: Place, data: bytes) -> tuple[Action, Path]:
    return await place.held(data), place.inner.storage.path(oid_of(data))


@pytest.mark.parametrize("damage", ["missing", "shorter", "longer", "a folder"])
async def test_what_is_lost_is_told_as_storage_tells_it(inner: Inner, damage: str) -> None:
    """502 with a clear message, and never a wrong byte: no file of another size is sent (trap-2, trap-6)."""
    data = content(f"lost {damage}", 1_000_000)
    async with _beside(inner, inner.storage.root) as place:
        action, path = await _stored(place, data)
        path.unlink()
        if damage == "a folder":
            path.mkdir()
        elif damage != "missing":
            path.write_bytes(data[:-1] if damage == "shorter" else data + b"x")
        answer = await action.get()
        check_error(answer, 502)
        assert "damaged or lost" in answer.json()["message"]
        if damage == "a folder":
            path.rmdir()


async def test_another_folder_than_storage_has_costs_no_download(inner: Inner, tmp_path: Path) -> None:
    """Storage sends the bytes, and counts them once."""
    data = content("elsewhere", 3_000_000)
    async with _beside(inner, tmp_path / "nowhere") as place:
        action, _ = await _stored(place, data)
        relayed = _relayed()
        for _ in range(2):
            assert (await action.get()).content == data
        await until(lambda: _relayed() == relayed + 2)
        await _wait_counted(place, 2 * len(data))


@pytest.mark.parametrize("planted", ["file", "folder"])
async def test_a_link_is_not_followed(inner: Inner, tmp_path: Path, planted: str) -> None:
    """Neither in place of a file nor in place of a folder: what lies outside of the folder is not sent from there."""
    data = content(f"linked {planted}", 1_000_000)
    secret = content("secret", len(data))
    copy = tmp_path / "copy"
    async with _beside(inner, copy) as place:
        action, path = await _stored(place, data)
        there = copy / path.relative_to(inner.storage.root)
        outside = tmp_path / "outside" / path.name
        outside.parent.mkdir()
        outside.write_bytes(secret)
        if planted == "file":
            there.parent.mkdir(parents=True)
            there.symlink_to(outside)
        else:
            there.parent.parent.mkdir(parents=True)
            there.parent.symlink_to(outside.parent)
        assert (await action.get()).content == data


async def test_a_copy_of_the_folder_does(inner: Inner, tmp_path: Path) -> None:
    """Only the file counts, not the mount point of the folder, so a link may lead to the folder itself."""
    data = content("mounted", 1_000_000)
    (tmp_path / "mounted").symlink_to(tmp_path / "copy")
    async with _beside(inner, tmp_path / "mounted") as place:
        action, path = await _stored(place, data)
        there = tmp_path / "copy" / path.relative_to(inner.storage.root)
        there.parent.mkdir(parents=True)
        shutil.copy(path, there)
        relayed = _relayed()
        assert (await action.get()).content == data
        assert _relayed() == relayed


async def test_a_file_that_is_cut_while_it_is_sent(inner: Inner) -> None:
    """The connection ends early: nothing that is too short looks whole (trap-2)."""
    data = content("cut while sent", BIG)
    async with _beside(inner, inner.storage.root) as place:
        action, path = await _stored(place, data)
        async with raw.downloading(place.facade, action) as reader:
            os.truncate(path, MIB)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(len(data))


@pytest.mark.parametrize("size", [100, 5_000_000])
async def test_https_reads_the_disk_as_well(inner: Inner, tmp_path: Path, size: int) -> None:
    """The facade reads the bytes itself, because it has to encrypt them, so storage sends nothing."""
    data = content(f"encrypted {size}", size)
    files = write_certificate(tmp_path / "tls")
    async with _beside(inner, inner.storage.root, **files.settings) as place:
        await inner.storage.write(place.repository_id, data)
        relayed = _relayed()
        trusting = ssl.create_default_context(cafile=str(files.authority))
        async with Client(place.base_url, "alice", inner.tokens["alice"], verify=trusting) as alice:
            assert (await alice.download(oid_of(data), size)).content == data
        assert _relayed() == relayed


@pytest.fixture
async def sharing(tmp_path: Path) -> AsyncIterator[Running]:
    """Services that do what the test says, of which storage sends DATA, and a facade that reads a folder."""
    async with running_scripted(tmp_path) as (inner, address):

        async def read(request: pb.ReadObjectRequest) -> AsyncIterator[pb.ReadObjectResponse]:
            yield pb.ReadObjectResponse(header=pb.ReadObjectResponse.Header(size=len(DATA)))
            yield pb.ReadObjectResponse(data=DATA[request.offset :])

        inner.answers["ReadObject"] = read
        async with running_facade(
            address, address, rpc_seconds=2.5, shared_storage_path=tmp_path / "objects"
        ) as facade:
            yield inner, facade


async def test_an_older_storage_sends_the_bytes(sharing: Running) -> None:
    """It does not know the call."""
    assert (await action_of(sharing[1], Operation.DOWNLOAD).get()).content == DATA


@pytest.mark.parametrize(
    "path",
    [
        "planted",
        "../planted",
        "/etc/passwd",
        f"objects/{OID[:2]}/../{OID}",
        f"objects/{OID[:2]}/{OID[2:4]}/{OID}/../{OID}",
        f"objects/{OID[:2]}/{OID[2:4]}/{'0' * 64}",
    ],
)
async def test_a_path_that_is_no_objects_is_not_opened(sharing: Running, tmp_path: Path, path: str) -> None:
    """Whatever storage says, nothing else than a name of the object becomes part of a path (trap-28)."""
    for name in (tmp_path / "planted", tmp_path / "objects" / "planted"):
        name.parent.mkdir(exist_ok=True)
        name.write_bytes(bytes(len(DATA)))
    inner, facade = sharing
    inner.reply("LocateObject", pb.LocateObjectResponse(size=len(DATA), paths=[path]))
    assert (await action_of(facade, Operation.DOWNLOAD).get()).content == DATA


async def test_an_object_of_another_size_is_a_502(sharing: Running) -> None:
    """As from a stream: the reply breaks the contract."""
    inner, facade = sharing
    inner.reply("LocateObject", pb.LocateObjectResponse(size=1))
    check_error(await action_of(facade, Operation.DOWNLOAD).get(), 502)
