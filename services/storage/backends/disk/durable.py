"""Files and folders that outlast a power cut."""

import ctypes
import os
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
# Others may take it for a wish, such as those that another process serves.
_SYNCED_AS_A_WHOLE = (b"ext4", b"xfs")


def is_synced_as_a_whole(folder: Path) -> bool:
    """Tell whether `sync_file_system` can be relied on for files in a folder: on Linux, for ext4 and XFS."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}".encode()
    try:
        mounts = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return False
    # Of a line the third field is the device, and the first one after the dash the kind of file system.
    kinds = {
        kind.split()[0]
        for mount, _, kind in (line.partition(b" - ") for line in mounts)
        if number in mount.split()[2:3]
    }
    return bool(kinds) and kinds.issubset(_SYNCED_AS_A_WHOLE)


def sync_file_system(descriptor: int) -> None:
    """Return when all that was written to the file system of an open file is durable.

    Raises OSError where anything of it was not written since the file was opened (Linux 5.8 and later).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def sync_folder(folder: Path) -> None:
    """Return when the names in the folder are durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class DurableDirectories:
    """Makes folders below a root, and knows which of them are durable; may be used from several threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # Texts without what they all begin with: of 65,536 folders they take a quarter of what paths take.
        self._durable: set[str] = set()
        self._prefix = len(str(root))

    def make(self, folder: Path) -> None:
        """Make the folder and its parents below the root where they are missing; `sync` makes them durable."""
        if folder == self._root or folder.is_dir():
            return
        self.make(folder.parent)
        folder.mkdir(exist_ok=True)
        # It may have been there before, and been removed.
        self._durable.discard(self._below(folder))

    def ensure(self, folder: Path) -> None:
        """Make the folder and its parents below the root where they are missing, durably."""
        self.make(folder)
        self.sync(folder)

    def sync(self, *folders: Path) -> None:
        """Return when the names in the folders are durable, and they and their parents up to the root are as well."""
        synced: dict[Path, None] = {}
        for folder in folders:
            synced[folder] = None
            # Another process may have made it a moment ago and not have synced its parent yet.
            while folder != self._root and self._below(folder) not in self._durable:
                folder = folder.parent
                synced[folder] = None
        for folder in synced:
            sync_folder(folder)
        self._durable.update(map(self._below, synced))

    def _below(self, folder: Path) -> str:
        return str(folder)[self._prefix :]
