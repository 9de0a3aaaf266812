"""Setting of the C allocator, so that freed memory goes back to the system."""

import ctypes

# From <malloc.h>; a number of glibc's interface, which does not change.
_M_MMAP_THRESHOLD = -3
_THRESHOLD_BYTES = 128 * 1024


def give_back_freed_buffers() -> None:
    """Make each buffer of a part or a chunk go back to the system when it is freed, in the whole process.

    By default glibc also takes large buffers from the system one by one, but it counts a buffer as large only if it is
    larger than any that was freed before. With parts of 5 MiB glibc soon retains all of them, and fills the gaps
    between them. With another C library this function does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)
