"""An object far larger than what a process may take of memory, up and down (the issue's sixth condition; trap-9)."""

import asyncio
import hashlib
import http.client
import os
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil
import pytest

from tests.e2e.bytes_at_rest import incoming, names
from tests.support.http import Action, Client, content
from tests.support.seaweedfs import SeaweedFS
from tests.support.stack import Stack, running_stack
from tests.support.waiting import STEP_SECONDS

BLOCK = 1024 * 1024
BLOCKS = 3 * 1024 + 1
SIZE = BLOCKS * BLOCK
GROWTH = 64 * 1024 * 1024
EIGHT = 8
EACH_BLOCKS = int(os.environ.get("TOWPATH_TEST_OBJECT_MIB", "256"))
"""The size in MiB of the objects that go eight at a time: memory does not depend on it, but time does."""
GROWTH_FOR_EIGHT = 128 * 1024 * 1024
READERS = 8
GROWTH_FOR_EACH_READER = 16 * 1024 * 1024
_SAMPLE_SECONDS = 0.1

_pattern = memoryview(content("a big object", BLOCK - 8))


@pytest.fixture(scope="module")
def roomy() -> Iterator[Stack]:
    """A stack of its own, whose data folder goes with its big object."""
    with running_stack("--demo") as stack:
        yield stack


def _block(number: int) -> bytes:
    """Return one block of an object; no two are alike."""
    return number.to_bytes(8, "big") + _pattern


def _body(first: int = 0, count: int = BLOCKS) -> Iterator[bytes]:
    return (_block(number) for number in range(first, first + count))


def _oid(first: int = 0, count: int = BLOCKS) -> str:
    digest = hashlib.sha256()
    for block in _body(first, count):
        digest.update(block)
    return digest.hexdigest()


class MemoryWatch:
    """Samples the resident memory of every Python process of a stack, from its creation to `stop`."""

    def __init__(self, stack: Stack) -> None:
        assert stack.process is not None
        services = [process for name in ("facade", "storage", "locks") for process in stack.services(name)]
        processes = (psutil.Process(stack.process.pid), *services)
        self._processes = {" ".join([*p.cmdline()[1:4], str(p.pid)]): p for p in processes}
        self.before = self._sample()
        self.most = dict(self.before)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _sample(self) -> dict[str, int]:
        return {name: process.memory_info().rss for name, process in self._processes.items()}

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            for name, resident in self._sample().items():
                self.most[name] = max(self.most[name], resident)

    def stop(self) -> dict[str, int]:
        """Stop, and return by how many bytes each process had grown at most."""
        self._ended.set()
        self._thread.join()
        return {name: self.most[name] - self.before[name] for name in self.before}


def _connect(action: Action) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(action.href).netloc, timeout=STEP_SECONDS)


def _send(action: Action, first: int = 0, count: int = BLOCKS) -> int:
    connection = _connect(action)
    headers = {**action.header, "Content-Length": str(count * BLOCK)}
    connection.request("PUT", urlsplit(action.href).path, body=_body(first, count), headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def _receive(action: Action, size: int = SIZE) -> str:
    connection = _connect(action)
    connection.request("GET", urlsplit(action.href).path, headers=action.header)
    response = connection.getresponse()
    assert response.status == 200
    assert response.headers["Content-Length"] == str(size)
    digest = hashlib.sha256()
    buffer = bytearray(BLOCK)
    while count := response.readinto(buffer):
        digest.update(memoryview(buffer)[:count])
    connection.close()
    return digest.hexdigest()


@pytest.mark.usefixtures("relayed")
@pytest.mark.drill
async def test_three_gibibytes_pass_without_growth(roomy: Stack) -> None:
    """3 GiB go up and down, and no process of Towpath grows by more than 64 MiB; ranges past 2 GiB are right."""
    oid = _oid()
    async with Client(roomy.base_url, "alice", roomy.tokens["alice"]) as client:
        watch = MemoryWatch(roomy)
        try:
            upload = await client.action("upload", oid, SIZE)
            assert upload is not None
            assert await asyncio.to_thread(_send, upload) == 200
            download = await client.action("download", oid, SIZE)
            assert download is not None
            assert await asyncio.to_thread(_receive, download) == oid
        finally:
            growth = watch.stop()
        assert len(growth) == 5
        assert {name: bytes_ for name, bytes_ in growth.items() if bytes_ >= GROWTH} == {}
        assert [size for name, size in names(roomy).items() if name.startswith(oid)] == [SIZE]
        assert incoming(roomy) == []
        for number in (2048, BLOCKS - 1):
            wanted = {**download.header, "Range": f"bytes={number * BLOCK}-{number * BLOCK + 99}"}
            part = await client.http.get(download.href, headers=wanted)
            assert part.status_code == 206
            assert part.headers["Content-Range"] == f"bytes {number * BLOCK}-{number * BLOCK + 99}/{SIZE}"
            assert part.content == _block(number)[:100]


@pytest.mark.usefixtures("relayed")
@pytest.mark.drill
async def test_eight_objects_at_once_through_an_object_store(seaweedfs: SeaweedFS) -> None:
    """Large objects go up and down together, relayed to S3, and facade and storage grow by less than 128 MiB."""
    starts = [number * EACH_BLOCKS for number in range(EIGHT)]
    with running_stack("--demo", "--storage", seaweedfs.url("big")) as stack:
        async with Client(stack.base_url, "alice", stack.tokens["alice"]) as client:
            oids = [await asyncio.to_thread(_oid, start, EACH_BLOCKS) for start in starts]
            size = EACH_BLOCKS * BLOCK
            uploads = [await client.action("upload", oid, size) for oid in oids]
            watch = MemoryWatch(stack)
            try:
                sent = [
                    asyncio.to_thread(_send, action, start, EACH_BLOCKS)
                    for action, start in zip(uploads, starts, strict=True)
                    if action is not None
                ]
                assert await asyncio.gather(*sent) == [200] * EIGHT
                downloads = [await client.action("download", oid, size) for oid in oids]
                received = [asyncio.to_thread(_receive, action, size) for action in downloads if action is not None]
                assert await asyncio.gather(*received) == oids
            finally:
                growth = watch.stop()
            assert {name: bytes_ for name, bytes_ in growth.items() if bytes_ >= GROWTH_FOR_EIGHT} == {}


@pytest.mark.usefixtures("relayed")
@pytest.mark.drill
async def test_readers_that_stand_still_take_no_memory(roomy: Stack) -> None:
    """Slow downloads hold back the service: it keeps far less for each of them than the 64 MiB to come (trap-9)."""
    data = content("slowly read", 64 * BLOCK)
    async with Client(roomy.base_url, "alice", roomy.tokens["alice"]) as client:
        assert (await client.upload(data)).status_code == 200
        digest = hashlib.sha256(data).hexdigest()
        action = await client.action("download", digest, len(data))
        assert action is not None
        watch = MemoryWatch(roomy)
        connections = [_connect(action) for _ in range(READERS)]
        for connection in connections:
            connection.request("GET", urlsplit(action.href).path, headers=action.header)
        responses = [await asyncio.to_thread(connection.getresponse) for connection in connections]
        # Nothing tells that no more bytes come; two seconds would bring them all.
        await asyncio.sleep(2)
        growth = watch.stop()
        assert [hashlib.sha256(response.read()).hexdigest() for response in responses] == [digest] * READERS
        for connection in connections:
            connection.close()
        assert {name: bytes_ for name, bytes_ in growth.items() if bytes_ >= READERS * GROWTH_FOR_EACH_READER} == {}
