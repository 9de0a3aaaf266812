"""What the C library does with memory that is freed."""

import ctypes
import platform
import subprocess
import sys

import pytest

from services.common import memory

_FAULTS = """
import resource
from services.common import memory
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
    return int(subprocess.run(run, capture_output=True, text=True, check=True, timeout=60).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another library has no such habit")
def test_freed_memory_is_used_again() -> None:
    """Pieces of an object that follow each other lie in the same pages, which the kernel need not clear each time."""
    assert _faults("memory.keep_freed()") * 10 < _faults("")


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the C library is another one, it is left alone."""
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("a library was loaded"))
    memory.keep_freed()
