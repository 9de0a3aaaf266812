"""Tuning of glibc's malloc and of Python's garbage collector."""

import ctypes
import gc
import platform

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

# Larger than a message with a chunk of an object, and than every buffer derived from it.
_MAPPED_BYTES = 4 * 1024 * 1024
_KEPT_BYTES = 16 * 1024 * 1024
# Threads that share Python's GIL gain nothing from more arenas, and each arena retains the memory that it has had.
_ARENAS = 2
# More objects than all requests in flight have together.
_NEW_OBJECTS = 10_000


def tune_malloc() -> None:
    """Retain up to 16 MiB of freed memory for later allocations; without glibc, do nothing.

    By default glibc returns each freed chunk of an object to the kernel, and the kernel clears all pages of the next
    chunk: more than a third of what an upload costs the facade. All threads share two arenas, because with one arena
    for each thread, relaying four huge objects at once took 45 MiB more.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_ARENA_MAX, _ARENAS)
    libc.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
    libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def tune_garbage_collector() -> None:
    """Collect garbage after 10,000 new objects instead of 700, and never among the objects that exist now.

    The answer to one batch has several hundred objects, and all of them are freed when it is sent. Searching them, and
    all modules, for garbage was a sixth of what a batch cost the facade.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
