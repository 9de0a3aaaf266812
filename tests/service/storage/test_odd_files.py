"""Disks that refuse, and what is in a file's place and is none: nothing hangs, nothing is a fault of ours."""

import errno
import os
from pathlib import Path

import pytest
from towpath.storage.v1 import storage_service_pb2 as pb

from services.storage.backends.disk.backend import DiskBackend
from tests.service.storage.conftest import Sql
from tests.support.storage import RunningStorage, failure, oid_of, stored_path, upload
from tests.support.waiting import STEP_SECONDS, until

DATA = b"some bytes"


@pytest.mark.shared_storage
@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.EIO, "UNAVAILABLE UNAVAILABLE"),
        (errno.EROFS, "UNAVAILABLE UNAVAILABLE"),
        (errno.EMFILE, "UNAVAILABLE UNAVAILABLE"),
        (errno.ENFILE, "UNAVAILABLE UNAVAILABLE"),
        (errno.EDQUOT, "RESOURCE_EXHAUSTED STORAGE_FULL"),
        (errno.ENOSPC, "RESOURCE_EXHAUSTED STORAGE_FULL"),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_disk_that_refuses(
    storage: RunningStorage, monkeypatch: pytest.MonkeyPatch, number: int, told: str, streamed: bool
) -> None:
    """Of a write it is told what is wrong, nothing is left behind, and the next one succeeds when it is over."""
    data, before = os.urandom(10), storage.files()

    def refuse(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        patched.setattr("services.storage.journal.segment._sync", refuse)
        header = pb.WriteWholeObjectRequest(repository_id=1, oid=oid_of(data), size=len(data), data=data)
        stub = storage.stub
        error = await failure(
            stub.WriteObject(upload(1, oid_of(data), len(data), [data[:3], data[3:]]), timeout=STEP_SECONDS)
            if streamed
            else stub.WriteWholeObject(header, timeout=STEP_SECONDS)
        )
    assert f"{error.status.name} {error.reason}" == told
    await until(lambda: set(storage.files()) <= set(before))
    assert await storage.read(1, await storage.write(1, data, streamed=streamed)) == data


async def test_a_disk_without_files_to_open_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check opens one, which has no name and is gone at once."""
    backend = DiskBackend(tmp_path / "bytes")
    await backend.check()
    assert list((tmp_path / "bytes" / "incoming").iterdir()) == []
    opened = os.open

    def refuse(path: str, flags: int, *mode: int) -> int:
        if flags & os.O_WRONLY:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        await backend.check()


@pytest.mark.parametrize("odd", ["folder", "fifo"])
async def test_what_is_no_file_holds_nothing_up(storage: RunningStorage, odd: str) -> None:
    """Reading what has something else in its place fails at once, and its bytes can be brought again."""
    data = bytes(4096)
    oid = await storage.write(1, data)
    path = stored_path(storage.root, oid)
    path.unlink()
    (path.mkdir if odd == "folder" else lambda: os.mkfifo(path))()
    error = await failure(storage.read(1, oid))
    assert error.status.name == "DATA_LOSS"
    assert await storage.statuses(1, oid) == [pb.OBJECT_STATUS_DAMAGED]


async def test_a_sweep_goes_on_past_a_folder_in_a_files_place(storage: RunningStorage, sql: Sql) -> None:
    """It is tried again in an hour, and what else is due goes now."""
    odd, other = await storage.write(1, b"odd"), await storage.write(1, b"other")
    path = stored_path(storage.root, odd)
    path.unlink()
    (path / "within").mkdir(parents=True)
    for oid in (odd, other):
        await storage.delete(1, oid)
        await storage.purge(1, oid)
    await until(lambda: not stored_path(storage.root, other).exists())
    later = "SELECT count(*) FROM storage.discards WHERE due_at > now() + interval '30 minutes'"
    await until(lambda: path.exists())
    for _ in range(100):
        if await sql(later) == "1":
            break
    assert await sql(later) == "1"
    # What comes later is swept as ever.
    third = await storage.write(1, b"third")
    await storage.delete(1, third)
    await storage.purge(1, third)
    await until(lambda: not stored_path(storage.root, third).exists())
