"""What every backend must do. A new backend joins by a line in `_BACKENDS`."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.common.rpc.options import CHUNK_BYTES
from services.storage.backend import Backend, BytesMissing
from services.storage.disk import DiskBackend
from tests.support.memory_backend import MemoryBackend
from tests.support.storage import chunks_of, oid_of

_BACKENDS: dict[str, Callable[[Path], Backend]] = {
    "disk": DiskBackend,
    "memory": lambda _folder: MemoryBackend(),
}


@pytest.fixture(params=_BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Each backend, empty."""
    made: Backend = _BACKENDS[request.param](tmp_path / "bytes")
    return made


async def put(backend: Backend, data: bytes, *, oid: str | None = None, settle: bool = True) -> str:
    """Write an object and return its oid."""
    oid = oid_of(data) if oid is None else oid
    async with backend.begin(oid) as upload:
        for chunk in chunks_of(data):
            await upload.write(chunk)
        await upload.flush()
        await upload.publish()
        if settle:
            await upload.settle()
    return oid


async def get(backend: Backend, oid: str, offset: int = 0, length: int | None = None) -> bytes:
    """Read an object."""
    async with backend.open(oid) as stored:
        count = stored.size - offset if length is None else length
        return b"".join([chunk async for chunk in stored.chunks(offset, count)])


async def sweep(backend: Backend) -> list[str]:
    """Sweep, and return the oids that were to be settled."""
    settled = []

    async def settle(oid: str) -> None:
        settled.append(oid)

    assert await backend.sweep(settle) == len(settled)
    return settled


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
async def test_bytes_come_back(backend: Backend, size: int) -> None:
    """What is written is read, in pieces of bounded size."""
    data = os.urandom(size)
    oid = await put(backend, data)
    async with backend.open(oid) as stored:
        assert stored.size == size
        pieces = [chunk async for chunk in stored.chunks(0, size)]
    assert b"".join(pieces) == data
    assert all(0 < len(piece) <= CHUNK_BYTES for piece in pieces)
    assert await backend.sizes([oid]) == {oid: size}
    assert await sweep(backend) == []


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_any_range_comes_back(backend: Backend, data: st.DataObject) -> None:
    """A range is read as a slice is."""
    content = bytes(range(256)) * 10
    oid = await put(backend, content)
    offset = data.draw(st.integers(0, len(content)))
    length = data.draw(st.integers(0, len(content) - offset))
    assert await get(backend, oid, offset, length) == content[offset : offset + length]


async def test_bytes_that_end_too_early(backend: Backend) -> None:
    """A range beyond the end gives what is there, and then says that the rest is missing."""
    oid = await put(backend, b"abc")
    async with backend.open(oid) as stored:
        chunks = aiter(stored.chunks(1, 5))
        assert await anext(chunks) == b"bc"
        with pytest.raises(BytesMissing):
            await anext(chunks)


async def test_missing_bytes(backend: Backend) -> None:
    """What was never written is missing; deleting it changes nothing."""
    with pytest.raises(BytesMissing):
        await get(backend, "0" * 64)
    assert await backend.sizes(["0" * 64]) == {}
    await backend.delete("0" * 64)


async def test_trap_2_nothing_is_visible_before_publish(backend: Backend) -> None:
    """Bytes on their way are not there yet, and left before publish they leave nothing (trap 2)."""
    oid = oid_of(b"data")
    async with backend.begin(oid) as upload:
        await upload.write(b"data")
        await upload.flush()
        assert await backend.sizes([oid]) == {}
    assert await backend.sizes([oid]) == {}
    assert await sweep(backend) == []


async def test_publish_replaces(backend: Backend) -> None:
    """A new upload heals what is in place, and readers of the old bytes read them to their end."""
    oid = await put(backend, b"corrupt!", oid=oid_of(b"healthy"))
    async with backend.open(oid) as old:
        await put(backend, b"healthy")
        assert b"".join([chunk async for chunk in old.chunks(0, old.size)]) == b"corrupt!"
    assert await get(backend, oid) == b"healthy"


async def test_publish_may_be_repeated(backend: Backend) -> None:
    """Publishing again puts the bytes in place again, also after they were deleted."""
    oid = oid_of(b"data")
    async with backend.begin(oid) as upload:
        await upload.write(b"data")
        await upload.flush()
        await upload.publish()
        await upload.publish()
        await backend.delete(oid)
        await upload.publish()
        await upload.settle()
    assert await get(backend, oid) == b"data"
    assert await sweep(backend) == []


async def test_trap_4_uploads_of_one_oid_do_not_meet(backend: Backend) -> None:
    """Any number of uploads of one oid go on at once, and all succeed (trap 4)."""
    data = os.urandom(CHUNK_BYTES + 1)
    oids = await asyncio.gather(*(put(backend, data) for _ in range(8)))
    assert await get(backend, oids[0]) == data
    assert await sweep(backend) == []


async def test_deleted_while_read(backend: Backend) -> None:
    """Bytes that are deleted while they are read are read to their end."""
    data = os.urandom(3 * CHUNK_BYTES)
    oid = await put(backend, data)
    async with backend.open(oid) as stored:
        chunks = aiter(stored.chunks(0, stored.size))
        first = await anext(chunks)
        await backend.delete(oid)
        assert first + b"".join([chunk async for chunk in chunks]) == data
    assert await backend.sizes([oid]) == {}


async def test_sweep_finds_what_was_not_settled(backend: Backend) -> None:
    """An upload left between publish and settle is handed to the sweep, once; its bytes are the sweep's affair."""
    oid = await put(backend, b"data", settle=False)
    assert await sweep(backend) == [oid]
    assert await get(backend, oid) == b"data"
    assert await sweep(backend) == []


async def test_sweep_leaves_uploads_that_live(backend: Backend) -> None:
    """An upload that goes on is not swept (trap 11)."""
    oid = oid_of(b"data")
    async with backend.begin(oid) as upload:
        await upload.write(b"da")
        assert await sweep(backend) == []
        await upload.write(b"ta")
        await upload.flush()
        await upload.publish()
        assert await sweep(backend) == []
        await upload.settle()
    assert await get(backend, oid) == b"data"


async def test_what_is_stored_is_listed_by_oid(backend: Backend) -> None:
    """All that is in place is listed, ascending by oid, with its size; bytes on their way are not."""
    assert [entry async for entry in backend.stored()] == []
    written = {await put(backend, str(number).encode() * number): len(str(number)) * number for number in range(40)}
    async with backend.begin(oid_of(b"data")) as upload:
        await upload.write(b"data")
        await upload.flush()
        assert [entry async for entry in backend.stored()] == sorted(written.items())
    gone = min(written)
    await backend.delete(gone)
    del written[gone]
    assert [entry async for entry in backend.stored()] == sorted(written.items())


async def test_left_over_uploads_are_counted(backend: Backend) -> None:
    """What a sweep would remove is counted and stays; uploads that live are not counted."""
    oid = await put(backend, b"left", settle=False)
    async with backend.begin(oid_of(b"data")) as upload:
        await upload.write(b"data")
        assert await backend.left_over() == 1
        assert await backend.left_over() == 1
    assert await sweep(backend) == [oid]
    assert await backend.left_over() == 0


async def test_sweep_that_fails_leaves_all_as_it_was(backend: Backend) -> None:
    """When an oid cannot be settled, a later sweep finds it again."""
    oid = await put(backend, b"data", settle=False)

    async def fail(_oid: str) -> None:
        raise OSError("the index does not answer")

    with pytest.raises(OSError, match="does not answer"):
        await backend.sweep(fail)
    assert await sweep(backend) == [oid]


@pytest.mark.parametrize("oid", ["", "../../x", "A" * 64, "0" * 63, "0" * 64 + "/x", "é" * 64])
async def test_trap_28_only_oids(backend: Backend, oid: str) -> None:
    """Anything but an oid is refused before it becomes a place (trap 28)."""
    with pytest.raises(ValueError, match="oid: expected"):
        await put(backend, b"", oid=oid)
    with pytest.raises(ValueError, match="oid: expected"):
        await get(backend, oid)
    with pytest.raises(ValueError, match="oid: expected"):
        await backend.delete(oid)


async def test_room_and_health(backend: Backend) -> None:
    """A backend that is well says so, and how many bytes it has room for."""
    await backend.check()
    assert await backend.available_bytes() > 0
