"""Folders that a run makes once, and every test that needs one copies."""

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_VARIABLE = "TOWPATH_TESTS_PREPARED"
"""The variable with the folder of the run, which its worker processes inherit."""


@contextmanager
def prepared_folders() -> Iterator[None]:
    """Keep what a run prepares, and remove it at the end; in a process that inherited the folder, do nothing."""
    if _VARIABLE in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="towpath-prepared-") as folder:
        Path(folder).chmod(0o711)
        os.environ[_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[_VARIABLE]


def copy_prepared(name: str, make: Callable[[Path], None], to: Path) -> None:
    """Copy the prepared folder of this name to a path where nothing is; the first caller of the run makes it.

    The owner of each file stays, and blocks are shared where the file system can.
    """
    with prepared_folders():
        folder = Path(os.environ[_VARIABLE])
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / name).exists():
                # Only a whole one has the name.
                with tempfile.TemporaryDirectory(dir=folder) as unfinished:
                    Path(unfinished).chmod(0o711)
                    make(Path(unfinished) / name)
                    (Path(unfinished) / name).rename(folder / name)
        subprocess.run(["cp", "--archive", "--reflink=auto", str(folder / name), str(to)], check=True)
