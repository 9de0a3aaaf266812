"""The backend on a disk."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from services.common.logs import get_logger
from services.storage.disk.durable import Folders, sync_folder
from services.storage.disk.left_over import LeftOver
from services.storage.disk.listing import objects_in, subfolders
from services.storage.disk.paths import incoming_folder, oid_of, path_of
from services.storage.disk.reading import DiskFile
from services.storage.disk.upload import DiskUpload
from services.storage.undivided import in_thread

_log = get_logger(__name__)


class DiskBackend:
    """Bytes as files below `root`, which is made where it is missing; see `services.storage.backend.Backend`.

    The file system must know hard links, atomic renames and flock. Several processes may share one root.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders = Folders(root)
        self._incoming = incoming_folder(root)
        # Objects may be private: other users of the host do not read them.
        root.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._incoming.mkdir(exist_ok=True)
        sync_folder(root)
        sync_folder(root.parent)

    @asynccontextmanager
    async def begin(self, oid: str) -> AsyncIterator[DiskUpload]:
        """Begin an upload into a file of its own in `incoming`."""
        upload = DiskUpload(self.root, self._folders, oid)
        try:
            await upload.create()
            yield upload
        finally:
            await upload.close()

    @asynccontextmanager
    async def open(self, oid: str) -> AsyncIterator[DiskFile]:
        """Open an object's file."""
        stored = DiskFile(path_of(self.root, oid))
        try:
            await stored.open()
            yield stored
        finally:
            await stored.close()

    async def sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """Return the sizes of the files that exist."""
        return await in_thread(self._sizes, list(oids))

    def _sizes(self, oids: list[str]) -> dict[str, int]:
        sizes = {}
        for oid in oids:
            try:
                sizes[oid] = path_of(self.root, oid).stat().st_size
            except FileNotFoundError:
                continue
        return sizes

    async def stored(self) -> AsyncIterator[tuple[str, int]]:
        """Return what the folders hold, one folder at a time."""
        for first in await in_thread(subfolders, self.root / "objects"):
            for second in await in_thread(subfolders, first):
                for oid, size in await in_thread(objects_in, second):
                    yield oid, size

    async def delete(self, oid: str) -> None:
        """Delete an object's file, if it exists."""
        await in_thread(self._delete, oid)

    def _delete(self, oid: str) -> None:
        path = path_of(self.root, oid)
        try:
            path.unlink()
        except FileNotFoundError:
            return
        sync_folder(path.parent)

    async def sweep(self, settle: Callable[[str], Awaitable[None]]) -> int:
        """Remove the files in `incoming` whose writer is dead, each after its oid is settled."""
        swept = 0
        for path in await in_thread(lambda: list(self._incoming.iterdir())):
            oid = oid_of(path)
            if oid is None:
                _log.warning("not a file of ours", path=str(path))
                continue
            left_over = LeftOver(path)
            try:
                if await left_over.claim():
                    await settle(oid)
                    await left_over.remove()
                    swept += 1
            finally:
                await left_over.close()
        return swept

    async def left_over(self) -> int:
        """Return how many files in `incoming` have a dead writer."""
        count = 0
        for path in await in_thread(lambda: list(self._incoming.iterdir())):
            left_over = LeftOver(path)
            try:
                count += oid_of(path) is not None and await left_over.claim()
            finally:
                await left_over.close()
        return count

    async def available_bytes(self) -> int:
        """Return what the file system has free for this user."""
        status = await in_thread(os.statvfs, self.root)
        return status.f_bavail * status.f_frsize

    async def check(self) -> None:
        """Return if files can be made below the root; else raise OSError."""
        if not await in_thread(os.access, self._incoming, os.R_OK | os.W_OK | os.X_OK):
            raise OSError(f"{self._incoming}: cannot be written")
