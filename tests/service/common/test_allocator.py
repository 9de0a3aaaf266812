"""Treatment of freed memory by the C library, and of unreachable objects by Python."""

import ctypes
import platform
import subprocess
import sys

import pytest

from services.common import allocator
from tests.support.waiting import STEP_SECONDS

_FAULTS = """
import resource
from services.common import allocator as memory
{prepare}
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def pieces():
    return b"".join([bytes(1024 * 1024) for _ in range(3)])
pieces()
before = faults()
for _ in range(50):
    pieces()
print(faults() - before)
"""


def _faults(prepare: str) -> int:
    run = [sys.executable, "-c", _FAULTS.format(prepare=prepare)]
    return int(subprocess.run(run, capture_output=True, text=True, check=True, timeout=STEP_SECONDS).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another library has no such habit")
def test_freed_memory_is_used_again() -> None:
    """Pieces of an object that follow each other lie in the same pages, which the kernel need not clear each time."""
    assert _faults("memory.tune_malloc()") * 10 < _faults("")


_ARENAS = """
import ctypes, threading
from services.common import allocator as memory
{prepare}
together = threading.Barrier(12)
def allocate():
    # Past Python's own allocator, whose objects are smaller.
    data = [bytes(100_000) for _ in range(20)]
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ctypes.CDLL(None).malloc_stats()
"""


def _arenas(prepare: str) -> int:
    run = [sys.executable, "-c", _ARENAS.format(prepare=prepare)]
    printed = subprocess.run(run, capture_output=True, text=True, check=True, timeout=STEP_SECONDS).stderr
    return sum(line.startswith("Arena ") for line in printed.splitlines())


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another library has no such habit")
def test_threads_share_two_arenas() -> None:
    """Memory that one thread has freed must be available to the others."""
    assert _arenas("memory.tune_malloc()") <= 2 < _arenas("")


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another C library has other settings, so it is left alone."""
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("a library was loaded"))
    allocator.tune_malloc()


_COLLECTIONS = """
import gc
from services.common import allocator as memory
{prepare}
collections = 0
def count(phase, _info):
    global collections
    collections += phase == "start"
gc.callbacks.append(count)
for _ in range(1000):
    answer = [{{"number": number}} for number in range(400)]
    for entry in answer[:50]:
        entry["itself"] = entry
    del answer, entry
print(collections, sum(isinstance(each, dict) and "itself" in each for each in gc.get_objects()))
"""


def _collections(prepare: str) -> tuple[int, int]:
    run = [sys.executable, "-c", _COLLECTIONS.format(prepare=prepare)]
    printed = subprocess.run(run, capture_output=True, text=True, check=True, timeout=STEP_SECONDS).stdout
    times, left = map(int, printed.split())
    return times, left


def test_unreachable_objects_are_looked_for_seldom_and_found() -> None:
    """Objects freed by their reference count must start no search for cycles, but cycles must still be found."""
    often, _ = _collections("")
    seldom, left = _collections("memory.tune_garbage_collector()")
    assert 0 < seldom * 5 < often
    assert left < 1000 * 50 / 2
