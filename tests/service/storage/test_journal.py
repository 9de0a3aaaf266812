"""The journal of a disk: what was acknowledged is there after a power cut, what was not leaves nothing."""

import asyncio
import errno
import os
import signal
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from unittest.mock import Mock

import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.storage.backends.disk import DiskBackend, durable
from services.storage.blob_names import new_name
from services.storage.index import advisory_locks
from services.storage.journal import journal
from services.storage.journal.segment import Segment, segments
from tests.service.storage.conftest import Sql, connected
from tests.support.storage import RunningStorage, StorageClient, StorageProcess, failure, oid_of, running_storage
from tests.support.waiting import STEP_SECONDS, until

PRESENT, MISSING = pb.OBJECT_STATUS_PRESENT, pb.OBJECT_STATUS_MISSING


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of this process that are settled soon."""
    monkeypatch.setattr(journal, "SEGMENT_SECONDS", 0.1)


def in_the_journal(client: StorageClient) -> set[str]:
    """Return the names of the objects in all segments."""
    names: set[str] = set()
    for path in segments(client.root / "journal"):
        segment = Segment(path, os.open(path, os.O_RDONLY))
        names.update(record.name for record in segment.records())
        segment.close()
    return names


def cut_power(client: StorageClient) -> None:
    """Leave of the files that are not durable yet what a crash of the system may leave: less, other bytes, nothing."""
    for number, path in enumerate(sorted(path for path in client.files() if path.name in in_the_journal(client))):
        path.chmod(0o600)
        match number % 3:
            case 0:
                path.unlink()
            case 1:
                path.write_bytes(b"")
            case 2:
                path.write_bytes(bytes(path.stat().st_size))


async def test_acknowledged_objects_outlast_a_power_cut(
    process: StorageProcess, client: StorageClient, sql: Sql
) -> None:
    """Their files may be gone, empty, or of other bytes: they are read from the first moment after the start."""
    await process.start()
    data = [os.urandom(1 + 4000 * number) for number in range(40)]
    await asyncio.gather(*(client.write(1 + number % 3, each) for number, each in enumerate(data)))
    await process.stop()
    # On a machine under load some are durable by now.
    assert in_the_journal(client)
    cut_power(client)
    await process.start()
    for number, each in enumerate(data):
        assert await client.read(1 + number % 3, oid_of(each)) == each
    assert client.segments() == []
    assert await sql("SELECT count(*) FROM storage.journal_segments") == "0"
    assert len(client.files()) == len(data)


async def test_a_segment_that_ends_amid_a_record(process: StorageProcess, client: StorageClient) -> None:
    """The records before are read; nobody was told of the one that a crash has cut off."""
    await process.start()
    data = [os.urandom(3000) for _ in range(5)]
    for each in data:
        await client.write(1, each)
    await process.stop()
    *_, segment = client.segments()
    whole = segment.read_bytes()
    segment.chmod(0o600)
    segment.write_bytes(whole + whole[:500] + bytes(700))
    cut_power(client)
    await process.start()
    for each in data:
        assert await client.read(1, oid_of(each)) == each
    assert client.segments() == []


async def test_files_in_the_journal_that_are_no_segments(process: StorageProcess, client: StorageClient) -> None:
    """An editor's copy, a folder, an empty segment and one of noise: the start goes on, and touches only segments."""
    await process.start()
    await process.stop()
    folder = client.root / "journal"
    (folder / "notes~").write_bytes(b"notes")
    (folder / "folder").mkdir()
    (folder / ("0" * 16)).write_bytes(b"")
    (folder / ("1" * 16)).write_bytes(os.urandom(10_000))
    await process.start()
    assert [path.name for path in client.segments()] == ["folder", "notes~"]
    assert await client.read(1, await client.write(1, b"data")) == b"data"


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("is_whole", [True, False])
async def test_segments_go_when_their_files_are_durable(
    database_url: SecretStr, tmp_path: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    """By one call where the file system is known to keep that, and else by one for each file."""
    monkeypatch.setattr(journal, "is_synced_as_a_whole", lambda _folder: is_whole)
    whole, each_file = Mock(wraps=durable.sync_file_system), Mock()
    sync = DiskBackend.sync

    def sync_each(backend: DiskBackend, names: Iterable[str]) -> None:
        each_file()
        sync(backend, names)

    monkeypatch.setattr(journal, "sync_file_system", whole)
    monkeypatch.setattr(DiskBackend, "sync", sync_each)
    async with running_storage(database_url, tmp_path) as storage:
        data = [os.urandom(2000) for _ in range(5)]
        await asyncio.gather(*(storage.write(1, each) for each in data))
        await until(lambda: storage.segments() == [])
        for each in data:
            assert await storage.read(1, oid_of(each)) == each
        assert await sql("SELECT count(*) FROM storage.journal_segments") == "0"
    assert (whole.called, each_file.called) == (is_whole, not is_whole)


@pytest.mark.parametrize(
    ("kind", "expected"), [("ext4", True), ("xfs", True), ("fuse.juicefs", False), ("nfs4", False)]
)
def test_file_systems_that_are_synced_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, expected: bool
) -> None:
    """Those that are known to keep it; of any other each file is synced."""
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 0:20 / /proc rw shared:5 - proc proc rw\n"
        f"36 35 {os.major(device)}:{os.minor(device)} / /a\\040b rw,noatime master:1 - {kind} /dev/root rw\n"
    )
    monkeypatch.setattr(durable, "_MOUNTS", mounts)
    assert durable.is_synced_as_a_whole(tmp_path) is expected


async def test_nothing_stays_in_the_journal_at_a_stop(process: StorageProcess, client: StorageClient) -> None:
    """So that a version that knows no journal may follow."""
    await process.start()
    await client.write(1, b"data")
    assert client.segments()
    assert await process.stop(signal.SIGTERM) == 0
    assert client.segments() == []


@pytest.mark.usefixtures("brief")
async def test_a_stop_amid_the_release_of_a_segment(
    database_url: SecretStr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop releases what is left, and nothing twice."""
    close, closed, go_on = Segment.close, threading.Event(), threading.Event()

    def slow(segment: Segment) -> None:
        close(segment)
        closed.set()
        go_on.wait(STEP_SECONDS)

    async with running_storage(database_url, tmp_path) as storage:
        monkeypatch.setattr(Segment, "close", slow)
        await storage.write(1, b"data")
        await until(closed.is_set)
        await storage.write(1, b"more")
        # Later than the stop cancels what releases segments.
        asyncio.get_running_loop().call_later(0.5, go_on.set)
    assert storage.segments() == []


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
async def test_files_that_cannot_be_synced_are_written_anew(
    storage: RunningStorage, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The kernel may forget what it could not write, and tells so once: the journal has it until it is written anew."""
    failed: list[str] = []

    def once(step: str, do: Callable[..., None]) -> Callable[..., None]:
        def fail_or_do(*arguments: object) -> None:
            if step in failed:
                do(*arguments)
            else:
                failed.append(step)
                raise OSError(number, os.strerror(number))

        return fail_or_do

    monkeypatch.setattr(journal, "sync_file_system", once("sync", durable.sync_file_system))
    monkeypatch.setattr(DiskBackend, "sync", once("sync", DiskBackend.sync))
    monkeypatch.setattr(DiskBackend, "rewrite", once("rewrite", DiskBackend.rewrite))
    data = os.urandom(5000)
    await storage.write(1, data)
    before = storage.path(oid_of(data)).stat().st_ino
    await until(lambda: storage.segments() == [])
    assert failed == ["sync", "rewrite"]
    assert await storage.read(1, oid_of(data)) == data
    assert storage.path(oid_of(data)).stat().st_ino != before


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("step", ["pwritev", "fdatasync", "write"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
async def test_a_disk_that_fails_once(
    storage: RunningStorage, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    """Objects acknowledged before stay, the one that fails is told and leaves nothing, the next one is written."""
    before, failing, after = (os.urandom(2000) for _ in range(3))
    await storage.write(1, before)

    def refuse(*_arguments: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        if step == "fdatasync":
            patched.setattr("services.storage.journal.segment._sync", refuse)
        else:
            patched.setattr(os, step, refuse)
        error = await failure(storage.write(1, failing))
    assert error.reason == ("STORAGE_FULL" if number == errno.ENOSPC else "UNAVAILABLE")
    await storage.write(1, after)
    await until(lambda: storage.segments() == [])
    assert await storage.statuses(1, oid_of(before), oid_of(failing), oid_of(after)) == [PRESENT, MISSING, PRESENT]
    assert storage.oids() == sorted([oid_of(before), oid_of(after)])
    assert [await storage.read(1, oid_of(each)) for each in (before, after)] == [before, after]


@pytest.mark.usefixtures("brief")
async def test_something_in_the_place_of_a_folder_keeps_no_segment(storage: RunningStorage) -> None:
    """An object that could not be written there is not committed, and leaves nothing to remove."""
    await storage.write(1, b"before")
    failing = b"of another folder".ljust(2000)
    folder = storage.path(oid_of(failing)).parents[1]
    folder.write_bytes(b"in the way")
    assert (await failure(storage.write(1, failing))).reason == "INTERNAL"
    await until(lambda: storage.segments() == [])
    folder.unlink()
    assert await storage.read(1, await storage.write(1, failing)) == failing


async def test_a_segment_that_was_taken_over_meanwhile(
    storage: RunningStorage, database_url: SecretStr, sql: Sql
) -> None:
    """Whoever takes it over removes what is not committed: no commit comes after that, and the next upload succeeds."""
    await storage.write(1, b"before")
    data = b"late"
    async with connected(database_url) as connection:
        # Commits wait for it.
        await advisory_locks.lock(connection, alone=[oid_of(data)])
        call = asyncio.ensure_future(storage.write(1, data))
        await until(lambda: storage.path(oid_of(data)).exists())
        await sql("DELETE FROM storage.journal_segments")
    assert (await failure(call)).reason == "UNAVAILABLE"
    assert await storage.statuses(1, oid_of(data)) == [MISSING]
    assert await storage.read(1, await storage.write(1, data)) == data
    assert await storage.read(1, oid_of(b"before")) == b"before"


async def test_a_neighbour_takes_over(database_url: SecretStr, process: StorageProcess, client: StorageClient) -> None:
    """Of two services on one disk one is killed for good: the other brings its journal to its files by itself."""
    await process.start()
    data = [os.urandom(3000) for _ in range(10)]
    for each in data:
        await client.write(1, each)
    other = client.root.parent / "other"
    other.mkdir()
    (other / "bytes").symlink_to(client.root)
    async with running_storage(database_url, other) as neighbour:
        await process.stop()
        cut_power(client)
        await until(lambda: client.segments() == [])
        for each in data:
            assert await neighbour.read(1, oid_of(each)) == each


async def test_a_file_system_without_locks(
    database_url: SecretStr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Has no journal: objects are written as before there was one."""

    def refuse(*_arguments: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    async with running_storage(database_url, tmp_path) as storage:
        assert await storage.read(1, await storage.write(1, b"data")) == b"data"
        assert storage.segments() == []


def test_the_name_of_a_segment_is_durable_before_anything_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects in a file whose name is lost in a power cut are lost."""
    synced = []

    def record(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", record)
    Segment.create(tmp_path).close()
    assert synced == [tmp_path]


def test_a_segment_is_locked_while_its_process_lives(tmp_path: Path) -> None:
    """Nobody else takes it over, and its records are what was added, in order."""
    segment = Segment.create(tmp_path)
    contents = {new_name(oid_of(data)): data for data in (b"one", b"", b"x" * 70_000)}
    segment.append(contents)
    assert segments(tmp_path) == [segment.path]
    assert Segment.take_over(segment.path) is None
    assert {record.name: record.data for record in segment.records()} == contents
    segment.close()
    taken = Segment.take_over(segment.path)
    assert taken is not None
    assert {record.name: record.data for record in taken.records()} == contents
    taken.remove()
    taken.close()
    assert Segment.take_over(segment.path) is None
