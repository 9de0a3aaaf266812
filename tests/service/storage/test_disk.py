"""The disk backend where it is more than any backend."""

import asyncio
import contextlib
import errno
import fcntl
import os
import random
import resource
import shutil
from pathlib import Path

import pytest

from services.common.errors import ResourceExhausted
from services.storage.backends.disk import DiskBackend
from services.storage.backends.disk.paths import incoming_path, path_of
from services.storage.blob_names import new_name
from tests.service.storage.test_backend_suite import get, put
from tests.support.folders import small_disk
from tests.support.storage import oid_of

OID = oid_of(b"data")
MIB = 1024 * 1024
LARGE = 16 * MIB
"""From this size on, bytes go past the kernel's cache."""


@pytest.fixture
def backend(tmp_path: Path) -> DiskBackend:
    """A disk backend, empty."""
    return DiskBackend(tmp_path / "bytes")


def files(backend: DiskBackend) -> list[Path]:
    """Return all files of a backend."""
    return sorted(path for path in backend.root.rglob("*") if path.is_file())


def open_files(backend: DiskBackend) -> list[Path]:
    """Return the files of a backend that this process has open."""
    paths = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            paths.append(descriptor.readlink())
    return [path for path in paths if path.is_relative_to(backend.root)]


async def test_trap_13_first_uploads_into_one_new_folder(backend: DiskBackend) -> None:
    """Many first uploads into the same folders, which none finds there, all succeed (trap-13)."""
    for prefix in range(10):
        names = [f"{prefix:02x}{prefix:02x}{number:060x}" for number in range(16)]
        await asyncio.gather(*(put(backend, b"data", name=name) for name in names))
        assert len(await backend.stat(names)) == 16


async def test_folders_that_somebody_removed(backend: DiskBackend) -> None:
    """Folders that were there and are gone are made again."""
    await put(backend, b"data")
    shutil.rmtree(backend.root / "objects")
    assert await get(backend, await put(backend, b"data")) == b"data"


async def test_bytes_and_their_name_are_durable_at_the_end(
    backend: DiskBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is synced under its name, its folder after it, and the folders above where they are new."""
    steps: list[str] = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def record_fsync(descriptor: int) -> None:
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name.partition('.')[0]}")
        fsync(descriptor)

    def record_rename(source: Path, target: Path) -> None:
        steps.append(f"rename to {Path(target).name.partition('.')[0]}")
        rename(source, target)

    def record_replace(source: Path, target: Path) -> None:
        steps.append(f"replace {Path(target).name.partition('.')[0]}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "rename", record_rename)
    monkeypatch.setattr(os, "replace", record_replace)
    first, second = OID[:2], OID[2:4]
    for _ in range(2):
        name = await put(backend, b"data")
        assert steps == [f"sync {OID}", f"sync {second}", f"sync {first}", "sync objects", "sync bytes"]
        steps.clear()
        # Folders that were removed are new again.
        shutil.rmtree(backend.root / "objects")
    backend.rewrite(name, b"data")
    assert steps == [f"sync {OID}", f"replace {OID}", f"sync {second}", f"sync {first}", "sync objects", "sync bytes"]
    steps.clear()
    async with backend.create(new_name(OID), 4) as upload:
        await upload.write(b"da")
        await upload.write(b"ta")
        await upload.finish()
    assert steps == [f"rename to {OID}", f"sync {OID}", f"sync {second}"]
    steps.clear()
    # Of many, no folder is synced twice.
    names = [f"{oid}.{number:016x}" for number in range(2) for oid in (OID, f"{first}{OID[::-1][2:]}")]
    await backend.put(dict.fromkeys(names, b"data"))
    assert steps[:4] == [f"sync {name.partition('.')[0]}" for name in names]
    assert steps[4:] == [f"sync {second}", f"sync {OID[::-1][2:4]}", f"sync {first}"]


async def test_trap_3_left_over_files(backend: DiskBackend) -> None:
    """The file of a killed upload must be in no other upload's way, and is deleted by its name (trap-3)."""
    name = new_name(OID)
    left = incoming_path(backend.root, name)
    left.write_bytes(b"da")
    there = await put(backend, b"data")
    await backend.delete(name)
    assert files(backend) == [path_of(backend.root, there)]


async def test_a_name_is_used_once(backend: DiskBackend) -> None:
    """Two uploads to one name are refused, in pieces at once or whole: they would mix."""
    name = new_name(OID)
    async with backend.create(name, 4) as upload:
        await upload.write(b"da")
        async with backend.create(name, 4) as another:
            with pytest.raises(FileExistsError):
                await another.write(b"fa")
        await upload.write(b"ta")
        await upload.finish()
    with pytest.raises(FileExistsError):
        await put(backend, b"fata", name=name)
    assert await get(backend, name) == b"data"


async def test_cancellation_at_any_moment_leaks_nothing(backend: DiskBackend) -> None:
    """Uploads and reads that are cancelled wherever they are leave no open file, and nothing but whole files."""
    moments = random.Random(3)  # noqa: S311 - moments, not secrets
    content = b"x" * 300_000

    async def work() -> None:
        await get(backend, await put(backend, content))

    for _ in range(60):
        task = asyncio.create_task(work())
        await asyncio.sleep(moments.uniform(0, 0.006))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert open_files(backend) == []
    assert list((backend.root / "incoming").iterdir()) == []
    assert {path.stat().st_size for path in files(backend)} == {len(content)}


async def test_file_too_large_for_the_system(backend: DiskBackend) -> None:
    """An upload beyond the file size limit of the system must be STORAGE_FULL, and leave nothing."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(ResourceExhausted) as caught:
            await put(backend, b"x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.reason == "STORAGE_FULL"
    assert files(backend) == []


@pytest.mark.parametrize("size", [2 * MIB, LARGE])
async def test_full_disk(tmp_path: Path, size: int) -> None:
    """A disk that fills up amid an upload is STORAGE_FULL; its bytes are free again, and other uploads go on."""
    with small_disk(tmp_path, mib=1):
        backend = DiskBackend(tmp_path)
        with pytest.raises(ResourceExhausted) as caught:
            await put(backend, b"x" * size)
        assert caught.value.reason == "STORAGE_FULL"
        assert files(backend) == []
        assert await backend.available_bytes() > 900_000
        assert await get(backend, await put(backend, b"data")) == b"data"


def is_direct(descriptor: int) -> bool:
    """Tell whether what is written to a file goes past the cache."""
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT)


async def put_unevenly(backend: DiskBackend, data: bytes) -> str:
    """Write bytes in pieces that are no multiple of a page, one of them empty."""
    name = new_name(oid_of(data))
    async with backend.create(name, len(data)) as upload:
        for start in range(0, len(data), 777_777):
            await upload.write(memoryview(data)[start : start + 777_777])
        await upload.write(b"")
        await upload.finish()
    return name


@pytest.mark.parametrize(
    ("size", "direct"),
    [(LARGE - 1, set()), (LARGE, {MIB}), (LARGE + 1, {MIB}), (LARGE + 3 * 4096, {MIB})],
)
async def test_large_bytes_go_past_the_cache(
    backend: DiskBackend, monkeypatch: pytest.MonkeyPatch, size: int, direct: set[int]
) -> None:
    """They are written in whole blocks, the last bytes as those of small objects are, and come back as they were."""
    past_cache = []
    write = os.write

    def record(descriptor: int, data: memoryview) -> int:
        if is_direct(descriptor):
            past_cache.append(len(data))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", record)
    data = os.urandom(size)
    assert await get(backend, await put_unevenly(backend, data)) == data
    if not past_cache and direct:
        pytest.skip("this file system has a cache for everything")
    assert set(past_cache) == direct
    assert sum(past_cache) == (LARGE if direct else 0)


@pytest.mark.parametrize("size", [LARGE, LARGE + 1])
async def test_file_systems_that_let_nothing_past_their_cache(
    backend: DiskBackend, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Some file systems refuse the flag, so everything must be written in the common way there."""
    change = fcntl.fcntl

    def refuse(descriptor: int, command: int, flags: int = 0) -> int:
        if command == fcntl.F_SETFL and flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "not here")
        return change(descriptor, command, flags)

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    data = os.urandom(size)
    assert await get(backend, await put_unevenly(backend, data)) == data


@pytest.mark.parametrize("failing", range(4))
async def test_file_systems_that_want_other_blocks(
    backend: DiskBackend, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """If a write past the cache is refused, or cut short within a page, the rest must be written in the common way."""
    write = os.write
    writes = 0

    def refuse(descriptor: int, data: memoryview) -> int:
        nonlocal writes
        if not is_direct(descriptor):
            return write(descriptor, data)
        writes += 1
        if writes == failing:
            return write(descriptor, data[: 3 * 4096])
        if writes > failing:
            raise OSError(errno.EINVAL, "not so")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", refuse)
    data = os.urandom(LARGE + 1)
    assert await get(backend, await put_unevenly(backend, data)) == data


async def test_a_large_upload_that_is_given_up_leaves_nothing(backend: DiskBackend) -> None:
    """Neither a file nor one that is open."""
    async with backend.create(new_name(OID), LARGE) as upload:
        for _ in range(3):
            await upload.write(bytes(777_777))
        assert len(files(backend)) == 1
    assert files(backend) == []
    assert open_files(backend) == []


async def test_other_users_read_nothing(backend: DiskBackend) -> None:
    """The root and the files are closed to other users of the host."""
    name = await put(backend, b"data")
    assert backend.root.stat().st_mode & 0o007 == 0
    assert path_of(backend.root, name).stat().st_mode & 0o007 == 0


async def test_broken_root(backend: DiskBackend) -> None:
    """A root that cannot be written is told by the health check."""
    await backend.check()
    (backend.root / "incoming").rmdir()
    with pytest.raises(OSError, match="cannot be written"):
        await backend.check()


async def test_only_objects_in_their_place_are_listed(tmp_path: Path) -> None:
    """Files of other names, and objects in a folder that is not theirs, are not taken for objects."""
    backend = DiskBackend(tmp_path)
    folder = tmp_path / "objects" / "ab" / "cd"
    folder.mkdir(parents=True)
    right = "abcd" + "0" * 60
    for name in (right, "dcba" + "0" * 60, "notes.txt"):
        (folder / name).write_bytes(b"x")
    (tmp_path / "objects" / "readme").write_text("x")
    assert [entry async for entry in backend.list_blobs()] == [(right, 1)]
