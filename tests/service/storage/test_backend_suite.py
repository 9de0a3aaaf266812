"""Contract of every backend. A new backend joins by a line in `_LOCAL` or `_REMOTE`."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.common.errors import Unavailable
from services.common.rpc.options import CHUNK_BYTES
from services.storage.backends.base import Backend, BytesMissing
from services.storage.backends.disk import DiskBackend
from services.storage.blob_names import new_name
from tests.support.memory_backend import MemoryBackend
from tests.support.storage import chunks_of, oid_of


async def _open_disk(folder: Path) -> Backend:
    return DiskBackend(folder)


async def _open_memory(_folder: Path) -> Backend:
    return MemoryBackend()


_LOCAL: dict[str, Callable[[Path], Awaitable[Backend]]] = {"disk": _open_disk, "memory": _open_memory}
# The fixtures that open backends on real servers.
_REMOTE = ("seaweedfs_backend", pytest.param("azurite_backend", marks=pytest.mark.drill))


@pytest.fixture(params=[*_LOCAL, *_REMOTE])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Awaitable[Backend]:
    """Return an awaitable that opens a backend, for each backend in turn."""
    if request.param in _LOCAL:
        return _LOCAL[request.param](tmp_path / "bytes")
    factory: Callable[[str], Awaitable[Backend]] = request.getfixturevalue(request.param)
    return factory("suite")


@pytest.fixture
async def backend(opening: Awaitable[Backend]) -> Backend:
    """Each backend, empty."""
    return await opening


async def put(backend: Backend, data: bytes, *, name: str | None = None, announced: int | None = None) -> str:
    """Write bytes, as many as are announced or fewer, and return their name."""
    name = new_name(oid_of(data)) if name is None else name
    async with backend.create(name, len(data) if announced is None else announced) as upload:
        for chunk in chunks_of(data):
            await upload.write(chunk)
        await upload.finish()
    return name


async def get(backend: Backend, name: str, offset: int = 0, length: int | None = None) -> bytes:
    """Read what is under a name."""
    async with backend.open(name) as stored:
        count = stored.size - offset if length is None else length
        return b"".join([chunk async for chunk in stored.chunks(offset, count)])


async def test_bytes_come_back(backend: Backend) -> None:
    """A reader must get all written bytes, in pieces of bounded size."""
    for size in (0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 12 * CHUNK_BYTES + 1):
        data = os.urandom(size)
        name = await put(backend, data)
        async with backend.open(name) as stored:
            assert stored.size == size
            pieces = [chunk async for chunk in stored.chunks(0, size)]
        assert b"".join(pieces) == data, size
        assert all(0 < len(piece) <= CHUNK_BYTES for piece in pieces), size
        assert await backend.stat([name]) == {name: size}


async def test_fewer_bytes_than_announced(backend: Backend) -> None:
    """An upload may end early, as a part does whose stream breaks; there is what was written, and no more."""
    for count in (1, CHUNK_BYTES, 7 * CHUNK_BYTES):
        data = os.urandom(count)
        name = await put(backend, data, announced=32 * CHUNK_BYTES)
        assert await backend.stat([name]) == {name: count}
        assert await get(backend, name) == data, count


async def test_many_are_put_at_once(backend: Backend) -> None:
    """Whole bytes of any size are there when it returns, the empty ones too."""
    contents = {new_name(oid_of(data)): data for data in (b"", b"x", os.urandom(CHUNK_BYTES), os.urandom(70_000))}
    await backend.put(contents)
    assert await backend.stat(contents) == {name: len(data) for name, data in contents.items()}
    for name, data in contents.items():
        assert await get(backend, name) == data


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
async def test_any_range_comes_back(backend: Backend, data: st.DataObject) -> None:
    """A range is read as a slice is."""
    content = bytes(range(256)) * 10
    name = await put(backend, content)
    offset = data.draw(st.integers(0, len(content)))
    length = data.draw(st.integers(0, len(content) - offset))
    assert await get(backend, name, offset, length) == content[offset : offset + length]


async def test_bytes_that_end_too_early(backend: Backend) -> None:
    """A range beyond the end gives at most what is there, and then says that the rest is missing."""
    name = await put(backend, b"abc")
    got = bytearray()

    async def read() -> None:
        async with backend.open(name) as stored:
            async for chunk in stored.chunks(1, 5):
                got.extend(chunk)

    with pytest.raises(BytesMissing):
        await read()
    assert b"bc".startswith(got)


async def test_missing_bytes(backend: Backend) -> None:
    """A blob that was never written is missing, and its deletion must change nothing."""
    name = new_name("0" * 64)
    with pytest.raises(BytesMissing):
        await get(backend, name)
    assert await backend.stat([name]) == {}
    await backend.delete(name)


async def test_trap_2_nothing_is_visible_before_the_end(backend: Backend) -> None:
    """Bytes on their way are not there yet, and given up they leave nothing (trap-2)."""
    data = os.urandom(12 * CHUNK_BYTES)
    name = new_name(oid_of(data))
    async with backend.create(name, len(data)) as upload:
        for chunk in chunks_of(data):
            await upload.write(chunk)
        assert await backend.stat([name]) == {}
        assert [entry async for entry in backend.list_blobs()] == []
    assert await backend.stat([name]) == {}
    with pytest.raises(BytesMissing):
        await get(backend, name)


async def test_an_upload_that_fails_leaves_nothing(backend: Backend) -> None:
    """An error or a cancellation meanwhile ends the upload, whatever was written."""
    name = new_name(oid_of(b"data"))

    async def fail(error: BaseException) -> None:
        async with backend.create(name, 4) as upload:
            await upload.write(b"data")
            raise error

    for error in (ValueError("told"), asyncio.CancelledError()):
        with pytest.raises(type(error)):
            await fail(error)
        assert await backend.stat([name]) == {}


async def test_trap_4_uploads_of_one_object_do_not_meet(backend: Backend) -> None:
    """Any number of uploads of one object go on at once, each to its own name, and all succeed (trap-4)."""
    data = os.urandom(CHUNK_BYTES + 1)
    names = await asyncio.gather(*(put(backend, data) for _ in range(8)))
    assert len(set(names)) == 8
    for name in names:
        assert await get(backend, name) == data


async def test_discard(backend: Backend) -> None:
    """A deletion must remove no other blob of the same object, and a repeated deletion must change nothing."""
    first, second = [await put(backend, b"data") for _ in range(2)]
    await backend.delete(first)
    await backend.delete(first)
    with pytest.raises(BytesMissing):
        await get(backend, first)
    assert await get(backend, second) == b"data"
    assert [entry async for entry in backend.list_blobs()] == [(second, 4)]


async def test_discarded_on_its_way(backend: Backend) -> None:
    """An upload whose blob is deleted on the way must fail, or leave a blob that can be deleted once more."""
    data = os.urandom(12 * CHUNK_BYTES)
    name = new_name(oid_of(data))
    with suppress(OSError, Unavailable):
        async with backend.create(name, len(data)) as upload:
            for chunk in chunks_of(data):
                await upload.write(chunk)
            await backend.delete(name)
            await upload.finish()
    await backend.delete(name)
    assert await backend.stat([name]) == {}


async def test_discarded_while_read(backend: Backend) -> None:
    """Bytes that are discarded while they are read are read to their end, or said to be missing: never others."""
    data = os.urandom(12 * CHUNK_BYTES)
    name = await put(backend, data)
    got = b""
    async with backend.open(name) as stored:
        with suppress(BytesMissing):
            async for chunk in stored.chunks(0, stored.size):
                if not got:
                    await backend.delete(name)
                got += chunk
    assert data.startswith(got)
    assert await backend.stat([name]) == {}


async def test_what_is_stored_is_listed_by_name(backend: Backend) -> None:
    """All that is in place is listed, ascending by name, with its size; bytes on their way are not."""
    assert [entry async for entry in backend.list_blobs()] == []
    written = {await put(backend, str(number).encode() * number): len(str(number)) * number for number in range(40)}
    # As files of older versions are named.
    plain = await put(backend, b"plain", name=oid_of(b"plain"))
    written[plain] = 5
    async with backend.create(new_name(oid_of(b"data")), 4) as upload:
        await upload.write(b"data")
        assert [entry async for entry in backend.list_blobs()] == sorted(written.items())
    gone = min(written)
    await backend.delete(gone)
    del written[gone]
    assert [entry async for entry in backend.list_blobs()] == sorted(written.items())


async def test_trap_28_only_names(backend: Backend) -> None:
    """Anything but a name is refused before it becomes a place (trap-28)."""
    for name in ("", "../../x", "A" * 64, "0" * 63, "0" * 64 + "/x", "é" * 64, "0" * 64 + ".x"):
        with pytest.raises(ValueError, match="name: expected"):
            await put(backend, b"", name=name)
        with pytest.raises(ValueError, match="name: expected"):
            await get(backend, name)
        with pytest.raises(ValueError, match="name: expected"):
            await backend.delete(name)


async def test_room_and_health(backend: Backend) -> None:
    """A backend that is well says so, and how many bytes it has room for, if anything bounds them."""
    await backend.check()
    available = await backend.available_bytes()
    assert available is None or available > 0
