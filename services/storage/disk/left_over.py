"""Files in `incoming` whose writer is dead."""

import fcntl
import os
from pathlib import Path

from services.storage.undivided import in_thread


class LeftOver:
    """A file in `incoming` that may be nobody's. `close` must be called at its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    async def claim(self) -> bool:
        """Keep the file from others until `close`; return False where its writer lives, or where it is gone."""
        return await in_thread(self._claim)

    async def remove(self) -> None:
        """Remove the file."""
        await in_thread(self._path.unlink, missing_ok=True)

    async def close(self) -> None:
        """Let go of the file."""
        await in_thread(self._close)

    def _claim(self) -> bool:
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its writer may have ended it, and the name gone, before the lock was ours.
            mine, there = os.fstat(self._descriptor), self._path.stat()
        except (BlockingIOError, FileNotFoundError):
            return False
        return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
