"""How the C library deals with memory that is freed, and Python with what refers to itself."""

import ctypes
import gc
import platform

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

# Larger than a message with a piece of an object, and all that is made of it on its way.
_MAPPED_BYTES = 4 * 1024 * 1024
_KEPT_BYTES = 16 * 1024 * 1024
# Threads that take turns at Python's interpreter gain nothing by more, and each keeps what it has had.
_ARENAS = 2
# More than the requests that are served at once have of them.
_NEW_OBJECTS = 10_000


def tune_malloc() -> None:
    """Keep up to 16 MiB of freed memory for what is allocated next, from now on; without glibc, do nothing.

    By itself glibc gives each freed piece of an object back to the kernel, which clears all pages of the next one: more
    than a third of what an upload takes of the facade. All threads share two arenas: where each had one, to relay four
    huge objects at once took 45 MiB more.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_ARENA_MAX, _ARENAS)
    libc.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
    libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def tune_garbage_collector() -> None:
    """Look for unreachable objects after 10,000 new ones, instead of 700, and never among those that are there now.

    The answer to one batch has several hundred, all of which go when it is sent: to look for what is unreachable among
    them, and among all modules, was a sixth of what it took of the facade.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
