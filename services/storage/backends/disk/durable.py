"""Durable files and folders, which survive a power cut."""

import ctypes
import os
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
# Other file systems may take syncfs as a mere hint, for example a file system that a process serves.
_SYNCED_AS_A_WHOLE = (b"ext4", b"xfs")


def is_synced_as_a_whole(folder: Path) -> bool:
    """Return whether `sync_file_system` is reliable for files in a folder: on Linux, for ext4 and XFS."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}".encode()
    try:
        mounts = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return False
    # The third field of a line is the device; the first field after the dash is the kind of file system.
    kinds = {
        kind.split()[0]
        for mount, _, kind in (line.partition(b" - ") for line in mounts)
        if number in mount.split()[2:3]
    }
    return bool(kinds) and kinds.issubset(_SYNCED_AS_A_WHOLE)


def sync_file_system(descriptor: int) -> None:
    """Make everything durable that was written to the file system of an open file.

    Raises OSError if any write to the file system has failed since the file was opened (Linux 5.8 and later).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def sync_folder(folder: Path) -> None:
    """Make the names in the folder durable."""
    sync_file(folder, os.O_DIRECTORY)


def sync_file(path: Path, flags: int = 0) -> None:
    """Make the bytes of the file durable."""
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class DurableDirectories:
    """Creates folders below a root and remembers which of them are durable; several threads may use it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # Strings without the common prefix: for 65,536 folders they take a quarter of the memory of paths.
        self._durable: set[str] = set()
        self._prefix = len(str(root))

    def make(self, folder: Path) -> None:
        """Create the folder and its missing parents below the root; `sync` makes them durable."""
        if folder == self._root or folder.is_dir():
            return
        self.make(folder.parent)
        folder.mkdir(exist_ok=True)
        # The folder may have existed before, and been removed since.
        self._durable.discard(self._below(folder))

    def ensure(self, folder: Path) -> None:
        """Create the folder and its missing parents below the root, durably."""
        self.make(folder)
        self.sync(folder)

    def sync(self, *folders: Path) -> None:
        """Make the names in the folders durable, and the folders and their parents up to the root as well."""
        synced: dict[Path, None] = {}
        for folder in folders:
            synced[folder] = None
            # Another process may have created the folder a moment ago and not have synced its parent yet.
            while folder != self._root and self._below(folder) not in self._durable:
                folder = folder.parent
                synced[folder] = None
        for folder in synced:
            sync_folder(folder)
        self._durable.update(map(self._below, synced))

    def _below(self, folder: Path) -> str:
        return str(folder)[self._prefix :]
