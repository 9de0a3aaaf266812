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

    def make(self, folder: Path) -> None:
        """Make the folder and its parents below the root where they are missing; `sync` makes them durable."""
        if folder == self._root or folder.is_dir():
            return
        self.make(folder.parent)
        folder.mkdir(exist_ok=True)
        # It may have been there before, and been removed.
        self._durable.discard(folder)

    def ensure(self, folder: Path) -> None:
        """Make the folder and its parents below the root where they are missing, durably."""
        self.make(folder)
        self.sync(folder)

    def sync(self, folder: Path) -> None:
        """Return when the names in the folder are durable, and it and its parents up to the root are as well."""
        sync_folder(folder)
        # Another process may have made it a moment ago and not have synced its parent yet.
        if folder != self._root and folder not in self._durable:
            self.sync(folder.parent)
            self._durable.add(folder)
