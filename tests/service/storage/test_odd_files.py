"""Disks that refuse: it is told as what it is, and nothing is a fault of ours."""

import errno
import os
from pathlib import Path

import pytest

from services.storage.backends.disk.backend import DiskBackend
from tests.support.storage import RunningStorage, failure
from tests.support.waiting import until


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
        error = await failure(storage.write(1, data, streamed=streamed))
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
