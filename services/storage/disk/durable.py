"""Folders that outlast a power cut."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Return when the names in the folder are durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Folders:
    """Makes folders below a root, and knows which of them are durable; may be used from several threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._durable: set[Path] = set()

    def ensure(self, folder: Path) -> None:
        """Make the folder and its parents up to the root where they are missing, durably."""
        if folder == self._root:
            return
        self.ensure(folder.parent)
        existed = folder.is_dir()
        folder.mkdir(exist_ok=True)
        # Another process may have made the folder a moment ago and not have synced its parent yet.
        if not existed or folder not in self._durable:
            sync_folder(folder.parent)
            self._durable.add(folder)
