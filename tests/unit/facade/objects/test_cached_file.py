"""Files that are read at once, or not at all."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.facade.objects.cached_file import read_cached

DATA = bytes(range(256)) * 300


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """An open folder with the file `a/b/file` in it, whose bytes the kernel has in memory."""
    path = tmp_path / "open" / "a" / "b" / "file"
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)
    assert path.read_bytes() == DATA
    descriptor = os.open(tmp_path / "open", os.O_PATH | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize(
    ("offset", "count"), [(0, len(DATA)), (0, 1), (len(DATA) - 1, 1), (4095, 4098), (10, 0), (len(DATA), 0)]
)
def test_a_part_is_read(folder: int, offset: int, count: int) -> None:
    """From the first byte to the last."""
    assert read_cached(folder, "a/b/file", len(DATA), offset, count) == bytearray(DATA[offset : offset + count])


@pytest.mark.parametrize("size", [len(DATA) - 1, len(DATA) + 1, 0])
def test_a_file_of_another_size_is_not_read(folder: int, size: int) -> None:
    """Nothing of it."""
    assert read_cached(folder, "a/b/file", size, 0, 0) is None


@pytest.mark.parametrize("path", ["a/b/other", "a/other/file", "a/b", "a/b/file/x", ""])
def test_what_is_no_such_file_is_not_read(folder: int, path: str) -> None:
    """It is for the way that tells what is wrong."""
    assert read_cached(folder, path, len(DATA), 0, 1) is None


def test_what_is_elsewhere_is_not_read(folder: int, tmp_path: Path) -> None:
    """Whatever the path leads through: links, the parent, or the root."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(DATA)
    (tmp_path / "open" / "linked").symlink_to(outside)
    (tmp_path / "open" / "a" / "link").symlink_to(outside / "file")
    (tmp_path / "open" / "a" / "inside").symlink_to("b/file")
    for path in ("linked/file", "a/link", "a/inside", "../outside/file", f"{outside}/file"):
        assert read_cached(folder, path, len(DATA), 0, 1) is None, path


def test_a_pipe_holds_nobody_up(folder: int, tmp_path: Path) -> None:
    """Nobody writes into it."""
    os.mkfifo(tmp_path / "open" / "pipe")
    assert read_cached(folder, "pipe", 0, 0, 0) is None


def _evict(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _is_cached(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False


def test_bytes_on_the_disk_alone_are_not_read(folder: int, tmp_path: Path) -> None:
    """They would be waited for."""
    path, other = (tmp_path / "open" / "a" / "b" / name for name in ("file", "other"))
    other.write_bytes(DATA)
    _evict(other)
    # To look may bring the bytes, so another file is looked at.
    if _is_cached(other):
        pytest.skip("this file system keeps all bytes in memory")
    _evict(path)
    assert read_cached(folder, "a/b/file", len(DATA), 0, 1) is None
    assert path.read_bytes() == DATA
    assert read_cached(folder, "a/b/file", len(DATA), 0, 1) == bytearray(DATA[:1])


def test_no_file_stays_open(folder: int) -> None:
    """A file that stayed open would use up descriptors, whether it was read or not."""
    before = len([*Path("/proc/self/fd").iterdir()])
    for size in (len(DATA), 1):
        read_cached(folder, "a/b/file", size, 0, 1)
    assert len([*Path("/proc/self/fd").iterdir()]) == before
