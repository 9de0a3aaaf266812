"""AppendPartialUpload and GetPartialUpload: what arrived is kept, one writer at a time, and what is left is swept."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.storage.backends.base import Backend
from services.storage.backends.disk import DiskBackend
from services.storage.index.partial_uploads import MAX_PARTS
from tests.service.storage.conftest import Sql
from tests.support.appends import PartialUpload
from tests.support.memory_backend import MemoryBackend
from tests.support.storage import RunningStorage, failure, oid_of, running_storage
from tests.support.stores import Stores
from tests.support.waiting import STEP_SECONDS, until, until_answer

MEBIBYTE = 1024 * 1024
PART = 2 * MEBIBYTE
DAY = 24 * 3600
MORE_PARTS = """
    INSERT INTO storage.partial_upload_parts
    SELECT upload_id, number, 1, store_id, left(name, 65) || lpad(number::text, 16, '0')
    FROM storage.partial_upload_parts, generate_series(1, {count}) number
"""
PARTS = "SELECT count(*) FROM storage.partial_upload_parts"
HELD = "SELECT count(*) FROM storage.partial_uploads WHERE held_until > clock_timestamp()"
END_LEASES = "UPDATE storage.partial_uploads SET held_until = clock_timestamp()"
LEFT = "SELECT (SELECT count(*) FROM storage.partial_uploads) + (SELECT count(*) FROM storage.partial_upload_parts)"


async def open_disk(folder: Path) -> Backend:
    """Open a disk below a folder."""
    return DiskBackend(folder / "bytes")


@pytest.fixture(params=["disk", "s3"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Awaitable[Backend]:
    """Return an awaitable that opens a disk, and a bucket."""
    if request.param == "disk":
        return open_disk(tmp_path)
    factory: Callable[[str], Awaitable[Backend]] = request.getfixturevalue("seaweedfs_backend")
    return factory("appends")


@pytest.fixture
async def backend(opening: Awaitable[Backend]) -> Backend:
    """The backend of the service."""
    return await opening


@pytest.fixture
async def storage(database_url: SecretStr, tmp_path: Path, backend: Backend) -> AsyncIterator[RunningStorage]:
    """A storage service on a disk, and on a bucket."""
    async with running_storage(database_url, tmp_path, backend=backend) as running:
        yield running


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let full parts have `PART` bytes."""
    monkeypatch.setattr("services.storage.objects.append._PART_BYTES", PART)


@pytest.fixture
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a tenth of a second count as silence."""
    monkeypatch.setattr("services.storage.objects.append._SILENT_SECONDS", 0.1)


async def blobs(backend: Backend) -> list[int]:
    """Return the sizes of all blobs in place."""
    async with aclosing(backend.list_blobs()) as listed:  # type: ignore[type-var] # it is a generator
        return sorted([size async for _, size in listed])


async def left_with(backend: Backend, *sizes: int) -> None:
    """Wait until the backend has blobs of these sizes, and no others."""
    await until_answer(sorted(sizes), lambda: blobs(backend))


@pytest.mark.parametrize("size", [0, 1, MEBIBYTE + 1, 3 * MEBIBYTE])
async def test_an_object_in_one_call(storage: RunningStorage, backend: Backend, size: int) -> None:
    """An object of one part is held when the call ends, and its part is its blob."""
    upload = PartialUpload(storage, os.urandom(size), user_id=7)
    if size:
        assert await upload.offset() == 0
    answer = await upload.append(0, size)
    assert (answer.offset, answer.HasField("expires_at")) == (size, False)
    assert await upload.offset() == size
    assert await storage.read(1, upload.named) == upload.data
    await left_with(backend, size)


async def test_an_empty_object_is_held_when_its_offset_is_its_size(shared: RunningStorage, repository_id: int) -> None:
    """A client that hears that the offset is the size sends nothing, and does not verify."""
    upload = PartialUpload(shared, b"", repository_id)
    assert await upload.offset() == 0
    assert await shared.read(repository_id, upload.named) == b""


@pytest.mark.parametrize("cuts", [[1], [MEBIBYTE, MEBIBYTE + 1, 4 * MEBIBYTE]])
async def test_an_object_in_several_calls(storage: RunningStorage, backend: Backend, sql: Sql, cuts: list[int]) -> None:
    """The object has the bytes of all calls, in order, and nothing but its blob is left."""
    upload = PartialUpload(storage, os.urandom(5 * MEBIBYTE + 3), user_id=7)
    await upload.append_all(cuts)
    assert await storage.read(1, upload.named) == upload.data
    assert (await storage.usage(1)).object_bytes == len(upload.data)
    await left_with(backend, len(upload.data))
    assert await sql(LEFT) == "0"


@pytest.mark.usefixtures("small_parts")
async def test_large_parts_of_one_call(storage: RunningStorage, backend: Backend, sql: Sql) -> None:
    """A long call is kept part by part while it goes on."""
    upload = PartialUpload(storage, os.urandom(2 * PART + 5), user_id=7)
    call = await upload.begin(0)
    await call.send(upload.data[: 2 * PART + 1])
    await until_answer("2", lambda: sql(PARTS))
    await call.send(upload.data[2 * PART + 1 :])
    assert (await call.end()).offset == len(upload.data)
    assert await storage.read(1, upload.named) == upload.data
    await left_with(backend, len(upload.data))


async def test_what_arrived_before_a_break_is_kept(storage: RunningStorage, sql: Sql) -> None:
    """Every byte that the service has received counts, when a call is cancelled amid it."""
    upload = PartialUpload(storage, os.urandom(4 * MEBIBYTE))
    call = await upload.begin(0)
    await call.send(upload.data[: 3 * MEBIBYTE])
    await until_answer("1", lambda: sql("SELECT count(*) FROM storage.uploads"))
    await call.break_off()
    kept = await upload.state()
    # gRPC throws away what a cancelled call has not read yet.
    assert 0 < kept.offset <= 3 * MEBIBYTE
    assert kept.HasField("expires_at")
    assert (await upload.append(kept.offset, len(upload.data))).offset == len(upload.data)
    assert await storage.read(1, upload.named) == upload.data


@pytest.mark.usefixtures("short_silence")
async def test_what_a_silent_client_has_sent_is_kept(storage: RunningStorage, sql: Sql) -> None:
    """A client whose network is gone must not lose what it has sent, although its call goes on."""
    upload = PartialUpload(storage, os.urandom(4 * MEBIBYTE))
    silent = await upload.begin(0)
    await silent.send(upload.data[:MEBIBYTE])
    await until_answer("1", lambda: sql(PARTS))
    assert await upload.refusal(MEBIBYTE, len(upload.data)) == ("UPLOAD_IN_PROGRESS", "")
    asked = asyncio.ensure_future(upload.offset())
    # The answer waits for the end of the silent call's lease.
    await sql(END_LEASES)
    assert await asked == MEBIBYTE
    assert (await upload.append(MEBIBYTE, len(upload.data))).offset == len(upload.data)
    await silent.send(upload.data[MEBIBYTE:])
    assert (await failure(silent.end())).reason == "UPLOAD_IN_PROGRESS"
    assert await storage.read(1, upload.named) == upload.data


@pytest.mark.usefixtures("short_silence")
async def test_a_silent_client_that_goes_on(storage: RunningStorage, sql: Sql) -> None:
    """A client that pauses for longer than a lease goes on in the same call, if no other has come."""
    upload = PartialUpload(storage, os.urandom(4 * MEBIBYTE))
    call = await upload.begin(0)
    await call.send(upload.data[:MEBIBYTE])
    await until_answer("1", lambda: sql(PARTS))
    await sql(END_LEASES)
    await call.send(upload.data[MEBIBYTE:])
    assert (await call.end()).offset == len(upload.data)
    assert await storage.read(1, upload.named) == upload.data


async def test_two_writers_never_mix(storage: RunningStorage, sql: Sql) -> None:
    """Of two calls of one user the later is refused at once; other users, and other sizes, are others."""
    upload = PartialUpload(storage, os.urandom(2 * MEBIBYTE), user_id=7)
    first = await upload.begin(0)
    await first.send(upload.data[:MEBIBYTE])
    await until_answer("1", lambda: sql(HELD))
    assert await upload.refusal(0, len(upload.data)) == ("UPLOAD_IN_PROGRESS", "")
    other = PartialUpload(storage, upload.data, user_id=8)
    assert (await other.append(0, len(other.data))).offset == len(other.data)
    await first.send(upload.data[MEBIBYTE:])
    assert (await first.end()).offset == len(upload.data)
    assert await storage.read(1, upload.named) == upload.data


async def test_many_writers_at_once(storage: RunningStorage, backend: Backend, sql: Sql) -> None:
    """However many calls begin at once, the object is right, and nothing else is left."""
    upload = PartialUpload(storage, os.urandom(3 * MEBIBYTE), user_id=7)

    async def write() -> None:
        while (offset := await upload.offset()) < len(upload.data):
            call = await upload.begin(offset)
            await call.send(upload.data[offset : offset + MEBIBYTE])
            await asyncio.wait({asyncio.ensure_future(call.end())})

    async with asyncio.timeout(STEP_SECONDS):
        await asyncio.gather(*(write() for _ in range(6)))
    assert await storage.read(1, upload.named) == upload.data
    await left_with(backend, len(upload.data))
    assert await sql(LEFT) == "0"


async def test_another_offset_is_refused(shared: RunningStorage, repository_id: int) -> None:
    """The refusal has the offset that is right, and nothing is lost."""
    upload = PartialUpload(shared, os.urandom(3000), repository_id)
    assert await upload.refusal(1000, 2000) == ("OFFSET_MISMATCH", "0")
    await upload.append(0, 1000)
    assert await upload.refusal(0, 1000) == ("OFFSET_MISMATCH", "1000")
    assert await upload.refusal(1001, 3000) == ("OFFSET_MISMATCH", "1000")
    await upload.append(1000, 3000)
    assert await upload.refusal(1000, 3000) == ("OFFSET_MISMATCH", "3000")
    assert (await upload.append(3000, 3000)).offset == 3000


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("size", [3000, PART + 3000])
async def test_too_many_bytes_lose_nothing(storage: RunningStorage, size: int) -> None:
    """Excess bytes are refused, and those before them are kept."""
    upload = PartialUpload(storage, os.urandom(size))
    call = await upload.begin(0)
    await call.send(upload.data + b"more")
    assert (await failure(call.end())).reason == "SIZE_MISMATCH"
    assert await upload.offset() == size
    assert await storage.read(1, upload.named) == upload.data


async def test_an_offset_beyond_the_size(shared: RunningStorage) -> None:
    """An offset that the object does not have is an error of the caller."""
    assert await PartialUpload(shared, b"data").refusal(5, 5) == ("INVALID_FIELD", "")


@pytest.mark.parametrize("cuts", [[], [1000]])
async def test_wrong_bytes_are_deleted(storage: RunningStorage, backend: Backend, sql: Sql, cuts: list[int]) -> None:
    """Bytes that are not the object are refused at their end, and the upload begins anew."""
    upload = PartialUpload(storage, os.urandom(3000), oid=oid_of(b"another"))
    for end in cuts:
        await upload.append(0, end)
    assert await upload.refusal(max(cuts, default=0), 3000) == ("HASH_MISMATCH", "")
    assert await upload.offset() == 0
    await left_with(backend)
    assert await sql(LEFT) == "0"
    assert await storage.statuses(1, upload.named) == [pb.OBJECT_STATUS_MISSING]


async def test_wrong_bytes_whose_refusal_nobody_read(storage: RunningStorage, sql: Sql, backend: Backend) -> None:
    """A client that asks again after the last bytes hears that all begins anew, not that all is there."""
    upload = PartialUpload(storage, os.urandom(3000), oid=oid_of(b"another"))
    await upload.append(0, 1000)
    # As if the process had been killed before it wrote the object.
    await sql("UPDATE storage.partial_uploads SET size = 1000")
    short = PartialUpload(storage, upload.data[:1000], oid=upload.oid)
    assert await short.offset() == 0
    await left_with(backend)


async def test_an_object_is_written_by_the_question(storage: RunningStorage, sql: Sql, backend: Backend) -> None:
    """All bytes are in parts, and the process was killed then: the offset is the size once the object is held."""
    data = os.urandom(2000)
    longer = PartialUpload(storage, data + b"x", oid=oid_of(data))
    await longer.append(0, 1200)
    await longer.append(1200, 2000)
    await sql("UPDATE storage.partial_uploads SET size = 2000")
    upload = PartialUpload(storage, data)
    assert await upload.offset() == 2000
    assert await storage.read(1, upload.named) == data
    await left_with(backend, 2000)


async def test_bytes_of_a_part_that_are_lost(storage: RunningStorage, backend: Backend, sql: Sql) -> None:
    """A part that is gone ends the upload with an error that can be repeated, and it begins anew."""
    upload = PartialUpload(storage, os.urandom(3000))
    await upload.append(0, 1000)
    await backend.delete(await sql("SELECT name FROM storage.partial_upload_parts"))
    assert await upload.refusal(1000, 3000) == ("UNAVAILABLE", "")
    assert await upload.offset() == 0
    await upload.append_all([])
    assert await storage.read(1, upload.named) == upload.data


async def test_an_upload_of_too_many_parts_begins_anew(storage: RunningStorage, backend: Backend, sql: Sql) -> None:
    """The parts of an upload are bounded in number, whatever a client does."""
    upload = PartialUpload(storage, os.urandom(3000))
    await upload.append(0, 1000)
    await sql(MORE_PARTS.format(count=MAX_PARTS - 1))
    assert await upload.refusal(1000, 3000) == ("OFFSET_MISMATCH", "0")
    assert await upload.offset() == 0
    await left_with(backend)


async def test_expiry(database_url: SecretStr, tmp_path: Path, backend: Backend, sql: Sql) -> None:
    """An expired upload begins anew, and is swept."""
    async with running_storage(database_url, tmp_path, backend=backend, storage_partial_upload_days=1 / DAY) as storage:
        upload, other = PartialUpload(storage, os.urandom(3000)), PartialUpload(storage, os.urandom(3000))
        await upload.append(0, 1000)
        await other.append(0, 1000)
        await until_answer(0, upload.offset)
        assert await upload.refusal(1000, 3000) == ("OFFSET_MISMATCH", "0")
        await upload.append_all([])
        # Any removal wakes the sweeper.
        await storage.delete(1, await storage.write(1, b"any"))
        await until_answer("0", lambda: sql(LEFT))
        await left_with(backend, 3000, 3)


async def test_an_upload_whose_object_came_in_another_way(storage: RunningStorage, backend: Backend, sql: Sql) -> None:
    """It is complete for whoever asks, and its parts are swept."""
    upload = PartialUpload(storage, os.urandom(3000))
    await upload.append(0, 1000)
    await storage.write(1, upload.data)
    assert await upload.offset() == 3000
    await storage.delete(1, await storage.write(1, b"any"))
    await until_answer("0", lambda: sql(LEFT))
    await left_with(backend, 3000, 3)


async def test_a_deleted_repository(storage: RunningStorage, backend: Backend, sql: Sql) -> None:
    """Its partial uploads go with it, running ones too, and no other's."""
    upload, running = PartialUpload(storage, os.urandom(3000)), PartialUpload(storage, os.urandom(3 * MEBIBYTE))
    other = PartialUpload(storage, upload.data, repository_id=2)
    await upload.append(0, 1000)
    await other.append(0, 1500)
    call = await running.begin(0)
    await call.send(running.data[:MEBIBYTE])
    await until_answer("3", lambda: sql("SELECT count(*) FROM storage.partial_uploads"))
    await storage.delete_repository(1)
    assert (await failure(call.end())).reason == "UPLOAD_IN_PROGRESS"
    assert await upload.refusal(0, 1000) == ("REPOSITORY_NOT_FOUND", "")
    await left_with(backend, 1500)
    assert await other.offset() == 1500


async def test_a_removed_object(shared: RunningStorage, repository_id: int) -> None:
    """An object that was removed cannot be uploaded in parts either."""
    upload = PartialUpload(shared, os.urandom(3000), repository_id)
    await shared.delete(repository_id, await shared.write(repository_id, upload.data))
    assert await upload.refusal(0, 3000) == ("OBJECT_REMOVED", "")
    assert (await failure(upload.state())).reason == "OBJECT_REMOVED"


@pytest.mark.shared_storage
async def test_quota(shared: RunningStorage, sql: Sql, repository_id: int) -> None:
    """A running upload takes the room of all its bytes, and one that broke off that of those that have come."""

    async def used() -> tuple[int, int]:
        usage = await shared.usage(repository_id)
        return usage.object_bytes, usage.reserved_bytes

    await shared.limit(repository_id, quota=5000)
    upload = PartialUpload(shared, os.urandom(3000), repository_id, user_id=7)
    call = await upload.begin(0)
    await until_answer((0, 3000), used)
    other = PartialUpload(shared, os.urandom(3000), repository_id, user_id=8, oid=oid_of(b"another"))
    assert await other.refusal(0, 3000) == ("QUOTA_EXCEEDED", "")
    await call.send(upload.data[:1000])
    assert (await call.end()).offset == 1000
    assert await used() == (0, 1000)
    await other.append(0, 2000)
    assert await used() == (0, 3000)
    # What the first user lacks of it fits; and what has come of it fits no second time.
    await upload.append(1000, 3000)
    assert await used() == (3000, 2000)
    assert (await failure(shared.write(repository_id, b"x"))).reason == "QUOTA_EXCEEDED"
    await shared.limit(repository_id, quota=6000)
    assert await other.refusal(2000, 3000) == ("HASH_MISMATCH", "")
    assert await used() == (3000, 0)
    left = f"SELECT count(*) FROM storage.reservations WHERE repository_id = {repository_id}"  # noqa: S608 - an id
    assert await sql(left) == "0"


@pytest.mark.shared_storage
async def test_one_user_leaves_room_for_others(
    shared: RunningStorage, repository_id: int, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user has so many partial uploads in a repository, and one size of an object; others go on."""
    monkeypatch.setattr("services.storage.index.partial_uploads.MAX_PER_USER", 2)
    uploads = [PartialUpload(shared, os.urandom(3000), repository_id, user_id=7) for _ in range(3)]
    for upload in uploads[:2]:
        await upload.append(0, 1000)
    assert await uploads[2].refusal(0, 1000) == ("RATE_LIMITED", "")
    await PartialUpload(shared, uploads[2].data, repository_id, user_id=8).append(0, 1000)
    again = PartialUpload(shared, bytes(2000), repository_id, user_id=7, oid=uploads[0].named)
    await again.append(0, 500)
    kept = f"FROM storage.partial_uploads WHERE repository_id = {repository_id}"
    assert await sql(f"SELECT string_agg(received::text, ' ' ORDER BY id) {kept}") == "1000 1000 500"
    assert (await uploads[1].append(1000, 3000)).offset == 3000


@pytest.mark.shared_storage
async def test_traffic_is_counted_once(shared: RunningStorage, sql: Sql, repository_id: int) -> None:
    """The bytes count as they arrive, and not again when the object is written from parts."""
    upload = PartialUpload(shared, os.urandom(3000), repository_id)
    await upload.append_all([1000, 2000])
    counted = f"SELECT sum(bytes_in) FROM storage.traffic WHERE repository_id = {repository_id}"  # noqa: S608 - an id
    await until_answer("3000", lambda: sql(counted))


async def test_no_room(database_url: SecretStr, tmp_path: Path) -> None:
    """Bytes that do not fit twice are refused before they are sent, and those that came before are kept."""
    backend = MemoryBackend(capacity=10_000)
    async with running_storage(database_url, tmp_path, backend=backend) as storage:
        upload = PartialUpload(storage, os.urandom(4000))
        await upload.append(0, 1000)
        filler = await storage.write(1, os.urandom(4000))
        assert await upload.refusal(1000, 4000) == ("STORAGE_FULL", "")
        assert await upload.offset() == 1000
        await storage.delete(1, filler)
        await storage.purge(1, filler)
        await until(lambda: len(backend.contents) == 1)
        assert (await upload.append(1000, 4000)).offset == 4000


async def test_stores(storage: RunningStorage, sql: Sql) -> None:
    """Parts stay readable while the primary changes; a store that is removed takes its uploads with it."""
    stores = Stores(storage)
    upload, left = PartialUpload(storage, os.urandom(3000)), PartialUpload(storage, os.urandom(3000))
    await upload.append(0, 1000)
    await left.append(0, 1000)
    await stores.fill("second", "first")
    await stores.set_primary("second")
    assert (await upload.append(1000, 3000)).offset == 3000
    assert await storage.read(1, upload.named) == upload.data
    assert await left.offset() == 1000
    await stores.stop_copy("first")
    await stores.remove("first")
    assert await left.offset() == 0
    assert await sql(LEFT) == "0"


async def test_off(database_url: SecretStr, tmp_path: Path) -> None:
    """With 0 days there are no partial uploads, and nobody is told that there are."""
    async with running_storage(database_url, tmp_path, storage_partial_upload_days=0) as storage:
        upload = PartialUpload(storage, b"data")
        assert await upload.refusal(0, 4) == ("UNIMPLEMENTED", "")
        assert (await failure(upload.state())).reason == "UNIMPLEMENTED"
        assert not (await storage.announce(1, (upload.named, 4))).is_resumable
    async with running_storage(database_url, tmp_path) as storage:
        assert (await storage.announce(1, (upload.named, 4))).is_resumable
        assert not (await storage.stat(1, intent=pb.INTENT_READ)).is_resumable
