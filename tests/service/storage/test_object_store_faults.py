"""An object store that fails: short outages are waited out, long ones are told in time, and nothing stays behind."""

import asyncio
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.common.errors import Reason, ResourceExhausted, ServiceError, Unavailable
from services.storage.backends.object_store import client_options, upload
from services.storage.backends.object_store.backend import ObjectStoreBackend
from services.storage.backends.object_store.deadlines import CHECK_SECONDS
from services.storage.backends.object_store.keys import key_of
from services.storage.backends.object_store.upload import MEBIBYTE, PART_BYTES
from services.storage.blob_names import new_name
from tests.service.storage.test_backend_suite import get, put
from tests.service.storage.test_object_store import uploads_under
from tests.support.seaweedfs import SeaweedFS, running_seaweedfs
from tests.support.storage import chunks_of, oid_of
from tests.support.store_proxy import StoreProxy, store_proxy
from tests.support.waiting import LONG_SECONDS, until


@dataclass
class Faulty:
    """A backend whose way to the server can be made to fail, and one whose way is well."""

    proxy: StoreProxy
    backend: ObjectStoreBackend
    well: ObjectStoreBackend
    server: SeaweedFS
    prefix: str

    async def uploads(self, name: str) -> int:
        """Return how many multipart uploads a name has."""
        return len(await uploads_under(self.server, key_of(self.prefix, name)))

    async def require_nothing_after_discard(self, name: str) -> None:
        """Discard a name by the way that is well, and see that nothing is left of it."""
        await self.well.delete(name)
        assert await self.uploads(name) == 0
        assert await self.well.stat([name]) == {}


async def faulty(server: SeaweedFS, proxy: StoreProxy) -> Faulty:
    """Open both ways to one prefix."""
    prefix = f"faults/{secrets.token_hex(4)}"
    return Faulty(
        proxy,
        await server.backend(prefix, endpoint=f"http://{proxy.address}"),
        await server.backend(prefix),
        server,
        prefix,
    )


@pytest.fixture
async def store(seaweedfs: SeaweedFS) -> AsyncIterator[Faulty]:
    """The S3 server of this run, behind a proxy; `impatient` before it shortens what it waits."""
    async with store_proxy(seaweedfs.port) as proxy, asyncio.timeout(LONG_SECONDS):
        yield await faulty(seaweedfs, proxy)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three seconds where there are thirty, and two where there are nine: no other patience of these tests is less.

    A last retry, which begins a pause after these two, still ends within the three.
    """
    monkeypatch.setattr(client_options, "RETRY_SECONDS", 2.0)
    monkeypatch.setattr(client_options, "MAX_BACKOFF_SECONDS", 0.2)
    monkeypatch.setattr(client_options, "PIECE_SECONDS", 3.0)
    monkeypatch.setattr(upload, "PIECE_SECONDS", 3.0)


async def everything(backend: ObjectStoreBackend, name: str) -> list[object]:
    """Make every kind of request at once, and return what each gave or raised."""
    big = os.urandom(PART_BYTES + 1)

    async def listed() -> list[tuple[str, int]]:
        return [entry async for entry in backend.list_blobs()]

    calls = [
        put(backend, b"data"),
        put(backend, big),
        get(backend, name),
        backend.stat([name]),
        listed(),
        backend.delete(new_name(oid_of(b""))),
        backend.check(),
    ]
    outcomes: list[object] = await asyncio.gather(*calls, return_exceptions=True)
    return outcomes


def _are_repeated(requests: list[str]) -> bool:
    """Tell whether there are requests, and each has come twice at least."""
    return bool(requests) and min(Counter(requests).values()) > 1


@pytest.mark.parametrize("status", [503, 429, 500])
async def test_answers_that_say_later(store: Faulty, status: int) -> None:
    """Nobody notices that a store answers 503, 429 or 500 for a while."""
    name = await put(store.well, b"data")
    store.proxy.answer = (status, b"<Error><Code>SlowDown</Code></Error>")
    calls = asyncio.create_task(everything(store.backend, name))
    await until(lambda: _are_repeated(store.proxy.requests), "each request comes again")
    store.proxy.answer = None
    assert [outcome for outcome in await calls if isinstance(outcome, BaseException)] == []


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("status", [503, 429])
async def test_a_store_that_goes_on_to_say_later(store: Faulty, status: int) -> None:
    """A store that goes on answering so is unavailable, whatever it is asked."""
    name = await put(store.well, b"data")
    store.proxy.answer = (status, b"")
    for outcome in await everything(store.backend, name):
        assert isinstance(outcome, Unavailable), outcome
        assert outcome.reason == Reason.UNAVAILABLE


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("size", [1, PART_BYTES + 1])
@pytest.mark.parametrize(("status", "code"), [(507, "Any"), (400, "QuotaExceeded")])
async def test_no_room(store: Faulty, status: int, code: str, size: int) -> None:
    """A store that says that it is full is full, and not unavailable."""
    store.proxy.answer = (status, f"<Error><Code>{code}</Code></Error>".encode())
    with pytest.raises(ResourceExhausted) as caught:
        await put(store.backend, os.urandom(size))
    assert caught.value.reason == Reason.STORAGE_FULL


@pytest.mark.parametrize("seconds", [0.5, pytest.param(8, marks=pytest.mark.drill)])
async def test_a_while_without_a_word(store: Faulty, seconds: float) -> None:
    """A network that carries nothing for up to eight seconds, in the midst of everything, is waited out."""
    data = os.urandom(3 * PART_BYTES)
    name = await put(store.well, data)
    async with store.backend.open(name) as stored:
        chunks = aiter(stored.chunks(0, stored.size))
        read = [await anext(chunks)]
        store.proxy.stop_flow()
        calls = asyncio.create_task(everything(store.backend, name))
        await asyncio.sleep(seconds)
        store.proxy.resume_flow()
        read.extend([chunk async for chunk in chunks])
    assert b"".join(read) == data
    *outcomes, check = await calls
    assert [outcome for outcome in outcomes if isinstance(outcome, BaseException)] == []
    assert isinstance(check, Unavailable) == (seconds > CHECK_SECONDS)


@pytest.mark.usefixtures("impatient")
async def test_a_store_that_stays_silent(store: Faulty) -> None:
    """A store that says nothing more is unavailable, and what was begun there is removed when it is back."""
    data = os.urandom(3 * PART_BYTES)
    name = await put(store.well, data)
    begun = new_name(oid_of(data))

    async def begin() -> None:
        async with store.backend.create(begun, 100 * MEBIBYTE) as upload:
            for number in range(100):
                if number == 12:
                    store.proxy.stop_flow()
                await upload.write(bytes(MEBIBYTE))

    with pytest.raises(Unavailable):
        await begin()
    for outcome in await everything(store.backend, name):
        assert isinstance(outcome, Unavailable), outcome
    # Before the flow resumes: the proxy then carries on what it holds, and that may be the abort of this one.
    assert await store.uploads(begun) == 1
    store.proxy.resume_flow()
    await store.require_nothing_after_discard(begun)


@pytest.mark.usefixtures("impatient")
async def test_what_a_silent_store_is_owed_is_bounded(store: Faulty) -> None:
    """While the store takes nothing, an upload holds two parts in memory and a little more, and then waits."""
    store.proxy.stop_flow()
    taken = 0

    async def send() -> None:
        nonlocal taken
        async with store.backend.create(new_name(oid_of(b"")), 100 * MEBIBYTE) as upload:
            while taken < 100:
                await upload.write(bytes(MEBIBYTE))
                taken += 1

    with pytest.raises(Unavailable):
        await send()
    assert taken * MEBIBYTE <= 2 * PART_BYTES + 2 * MEBIBYTE


@pytest.mark.parametrize("size", [50_000, pytest.param(300_000, marks=pytest.mark.drill)])
async def test_a_slow_store(store: Faulty, size: int) -> None:
    """At 50 kB/s, objects of a few hundred kB come and go, however many seconds it takes."""
    store.proxy.bytes_per_second = 50_000
    data = os.urandom(size)
    assert await get(store.backend, await put(store.backend, data)) == data


@pytest.mark.usefixtures("impatient")
async def test_a_store_too_slow_for_parts(store: Faulty) -> None:
    """If a part takes longer than any client waits, the upload must be refused and removable."""
    store.proxy.bytes_per_second = 50_000
    name = new_name(oid_of(b""))
    with pytest.raises(Unavailable):
        await put(store.backend, os.urandom(4 * PART_BYTES), name=name)
    store.proxy.bytes_per_second = None
    await store.require_nothing_after_discard(name)


async def test_connections_that_break_off(store: Faulty) -> None:
    """A download goes on where its connection broke off, and an upload is sent again."""
    data = os.urandom(3 * PART_BYTES)
    name = await put(store.well, data)
    store.proxy.answer_bytes_left = 2 * MEBIBYTE
    assert await get(store.backend, name) == data
    assert store.proxy.answer_bytes_left is None
    store.proxy.answer_bytes_left = 10
    assert await get(store.well, await put(store.backend, data)) == data
    assert store.proxy.answer_bytes_left is None


@pytest.mark.parametrize("size", [1000, PART_BYTES + 1])
async def test_damaged_bytes_are_refused(store: Faulty, size: int) -> None:
    """The store itself refuses bytes that differ from what was sent: each request carries their SHA-256."""
    name = new_name(oid_of(b"any"))
    store.proxy.damaging = True
    with pytest.raises(Unavailable, match="refuses what it is asked"):
        await put(store.backend, os.urandom(size), name=name)
    assert await store.well.stat([name]) == {}
    await store.require_nothing_after_discard(name)


@asynccontextmanager
async def own_server(folder: Path, monkeypatch: pytest.MonkeyPatch, *, volumes: int = 50) -> AsyncIterator[Faulty]:
    """Run an S3 server that may be harmed."""
    async with running_seaweedfs(folder, volumes=volumes) as server:
        for variable, value in {**server.environment, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}.items():
            monkeypatch.setenv(variable, value)
        async with store_proxy(server.port) as proxy, asyncio.timeout(LONG_SECONDS):
            yield await faulty(server, proxy)


async def test_a_store_killed_in_the_midst_of_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that dies and comes back: the upload ends well or is refused, and discard leaves nothing of it."""
    async with own_server(tmp_path, monkeypatch) as store:
        before = os.urandom(3 * PART_BYTES)
        kept = await put(store.backend, before)
        name, data = new_name(oid_of(b"any")), os.urandom(6 * PART_BYTES)
        outcome: ServiceError | None = None
        try:
            async with store.backend.create(name, len(data)) as begun:
                for number, chunk in enumerate(chunks_of(data)):
                    if number == 17:
                        await store.server.kill()
                        await store.server.start()
                    await begun.write(chunk)
                await begun.finish()
        except Unavailable as error:
            outcome = error
        assert await get(store.backend, kept) == before
        if outcome is None:
            assert await get(store.backend, name) == data
        await store.require_nothing_after_discard(name)
        assert await get(store.backend, await put(store.backend, data)) == data


@pytest.mark.usefixtures("impatient")
async def test_a_store_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose disk is full refuses uploads, of either kind; what it holds is read and removed as ever."""
    async with own_server(tmp_path, monkeypatch, volumes=2) as store:
        held: dict[str, bytes] = {}

        async def fill() -> None:
            for _ in range(100):
                data = os.urandom(PART_BYTES)
                held[await put(store.backend, data)] = data

        with pytest.raises(ServiceError) as caught:
            await fill()
        # SeaweedFS says 500 and no more.
        assert isinstance(caught.value, Unavailable | ResourceExhausted)
        name = new_name(oid_of(b"any"))
        with pytest.raises(ServiceError):
            await put(store.backend, os.urandom(3 * PART_BYTES), name=name)
        await store.require_nothing_after_discard(name)
        assert [entry async for entry in store.backend.list_blobs()] == sorted((name, PART_BYTES) for name in held)
        assert all([await get(store.backend, name) == data for name, data in held.items()])
        for name in held:
            await store.well.delete(name)
        assert [entry async for entry in store.backend.list_blobs()] == []
