"""Temporary folders that the account can enter as which Towpath runs where root has started it, and small disks."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder that everybody may enter, but only its owner may list, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="towpath-test-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@contextmanager
def small_disk(folder: Path, *, mib: int) -> Iterator[None]:
    """Mount a file system of its own at a folder; skip the test where this user may not."""
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)], check=False)
    if mount.returncode != 0:
        pytest.skip("mounting a file system is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
