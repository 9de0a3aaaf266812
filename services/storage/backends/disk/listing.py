"""Listings of the folders of a disk backend."""

import os
import stat
from pathlib import Path

from services.storage.blob_names import is_name


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted by name; an empty list if the folder does not exist."""
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def contents_of(folder: Path) -> list[tuple[str, int]]:
    """Return the names and sizes of the blobs that belong in the folder `ab/cd`, sorted by name."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_name(entry.name) and entry.name[:4] == folder.parent.name + folder.name:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    if stat.S_ISREG(status.st_mode):
                        found.append((entry.name, status.st_size))
    except FileNotFoundError:
        return []
    return sorted(found)
