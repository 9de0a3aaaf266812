"""How freed memory goes back to the system."""

import ctypes

# Of <malloc.h>; a number of glibc's interface, which does not change.
_M_MMAP_THRESHOLD = -3
_THRESHOLD_BYTES = 128 * 1024


def give_back_freed_buffers() -> None:
    """Have each buffer of a part or a piece go back to the system when it is freed, in the whole process.

    glibc takes large buffers from the system one by one, too, but counts as large only what is larger than any that was
    freed before: with parts of 5 MiB it soon keeps them all, and fills the gaps between them. With another C library
    this does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)
