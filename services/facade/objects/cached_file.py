"""Reads of cached files without waiting for the disk: openat2(2) with RESOLVE_CACHED, preadv2(2) with RWF_NOWAIT."""

import ctypes
import os
import stat

# The system call's number in Linux, on every architecture but alpha.
_OPENAT2 = 437
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RESOLVE_CACHED = 0x20


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


# O_NONBLOCK: opening a file that is not regular, such as a FIFO, must not block.
_HOW = _OpenHow(
    os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, 0, _RESOLVE_CACHED | _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS
)
_HOW_ADDRESS, _HOW_BYTES = ctypes.addressof(_HOW), ctypes.sizeof(_HOW)
# PyDLL does not release the GIL: the call never blocks, so other threads need not run meanwhile.
_syscall = ctypes.PyDLL(None).syscall
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
_syscall.restype = ctypes.c_long


def read_cached(folder: int, path: str, size: int, offset: int, count: int) -> bytearray | None:
    """Return bytes of a regular file of `size` bytes below an open folder, without following links.

    Return None where there is no such file, where a part of its path or of the bytes is not in the kernel's memory, and
    where the kernel does not support the check (Linux before 5.12).
    """
    file = _syscall(_OPENAT2, folder, path.encode(), _HOW_ADDRESS, _HOW_BYTES)
    if file < 0:
        return None
    try:
        status = os.fstat(file)
        if status.st_size != size or not stat.S_ISREG(status.st_mode):
            return None
        data = bytearray(count)
        # For an empty read the kernel does not report whether bytes are in memory.
        return data if not count or os.preadv(file, [data], offset, os.RWF_NOWAIT) == count else None
    except OSError:
        return None
    finally:
        os.close(file)
