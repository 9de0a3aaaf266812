"""Which objects the folders of a disk backend hold."""

import os
from pathlib import Path

from services.common.oid import is_oid


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder by name; none where it does not exist."""
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def objects_in(folder: Path) -> list[tuple[str, int]]:
    """Return the oids and sizes of the objects that belong into the folder `ab/cd`, by oid."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_oid(entry.name) and entry.name[:4] == folder.parent.name + folder.name:
                    try:
                        found.append((entry.name, entry.stat(follow_symlinks=False).st_size))
                    except FileNotFoundError:
                        continue
    except FileNotFoundError:
        return []
    return sorted(found)
