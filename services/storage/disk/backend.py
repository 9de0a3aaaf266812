"""The backend on a disk."""

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from services.common.undivided import in_thread
from services.storage.backend import Chunk
from services.storage.disk.durable import Folders, sync_folder
from services.storage.disk.listing import contents_of, subfolders
from services.storage.disk.paths import incoming_path, path_below, path_of
from services.storage.disk.reading import DiskFile
from services.storage.disk.upload import DiskUpload, put_in_place


class DiskBackend:
    """Bytes as files below `root`, which is made where it is missing; see `services.storage.backend.Backend`.

    The file system must know atomic renames. Several processes may share one root.
    """

    is_remote = False
    signing = None

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders = Folders(root)
        self._incoming = root / "incoming"
        # Objects may be private: other users of the host do not read them.
        root.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._incoming.mkdir(exist_ok=True)
        sync_folder(root)
        # One that this user may not read is the operator's, who has made the folder in it.
        with suppress(PermissionError):
            sync_folder(root.parent)

    @asynccontextmanager
    async def begin(self, name: str, size: int) -> AsyncIterator[DiskUpload]:
        """Begin an upload into a file in `incoming`."""
        upload = DiskUpload(self.root, self._folders, name, size)
        try:
            yield upload
        finally:
            await upload.close()

    async def put(self, contents: Mapping[str, Chunk]) -> None:
        """Make a file of each, all in one thread."""
        await put_in_place(
            [DiskUpload(self.root, self._folders, name, len(data), held=data) for name, data in contents.items()],
            self._folders,
        )

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[DiskFile]:
        """Open the file in place; it stays readable while it is open, even when it is discarded."""
        stored = DiskFile(path_of(self.root, name))
        try:
            await stored.open()
            yield stored
        finally:
            await stored.close()

    def path_below(self, name: str) -> str:
        """Return the path below the root."""
        return path_below(name)

    async def sizes(self, names: Iterable[str]) -> dict[str, int]:
        """Return the sizes of the files that exist."""
        return await in_thread(self._sizes, list(names))

    def _sizes(self, names: list[str]) -> dict[str, int]:
        sizes = {}
        for name in names:
            try:
                # Not by way of `Path`, which takes longer than the system: a batch asks for hundreds.
                sizes[name] = os.stat(f"{self.root}/{path_below(name)}").st_size  # noqa: PTH116 - see above
            except FileNotFoundError:
                continue
        return sizes

    async def stored(self) -> AsyncIterator[tuple[str, int]]:
        """Return what the folders hold, one folder at a time."""
        for first in await in_thread(subfolders, self.root / "objects"):
            for second in await in_thread(subfolders, first):
                for name, size in await in_thread(contents_of, second):
                    yield name, size

    async def discard(self, name: str) -> None:
        """Remove the file in place and the one in `incoming`, where they exist."""
        await in_thread(self._discard, name)

    def _discard(self, name: str) -> None:
        # In this order: an upload that goes on finds no file to put in place afterwards.
        incoming_path(self.root, name).unlink(missing_ok=True)
        path = path_of(self.root, name)
        try:
            path.unlink()
        except FileNotFoundError:
            return
        sync_folder(path.parent)

    async def available_bytes(self) -> int:
        """Return what the file system has free for this user."""
        status = await in_thread(os.statvfs, self.root)
        return status.f_bavail * status.f_frsize

    async def check(self) -> None:
        """Return if files can be made below the root; else raise OSError."""
        if not await in_thread(os.access, self._incoming, os.R_OK | os.W_OK | os.X_OK):
            raise OSError(f"{self._incoming}: cannot be written")
