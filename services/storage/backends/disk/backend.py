"""The backend on a disk."""

import errno
import os
import stat
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from services.common.concurrency.uncancellable import run_in_thread
from services.storage.backends.base import Chunk
from services.storage.backends.disk.durable import DurableDirectories, sync_folder
from services.storage.backends.disk.errors import NO_ROOM, on_disk
from services.storage.backends.disk.listing import contents_of, subfolders
from services.storage.backends.disk.new_file import NewFile
from services.storage.backends.disk.paths import incoming_path, objects_folder, path_of, relative_path
from services.storage.backends.disk.reading import DiskFile
from services.storage.backends.disk.upload import DiskUpload, put_in_place

# Not every system has it, nor every file system.
_NAMELESS: int = getattr(os, "O_TMPFILE", 0)
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


class DiskBackend:
    """Bytes as files below `root`, which is made where it is missing; see `services.storage.backends.base.Backend`.

    The file system must know atomic renames. Several processes may share one root.
    """

    is_remote = False
    signing = None

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders = DurableDirectories(root)
        self._incoming = root / "incoming"
        # Objects may be private: other users of the host do not read them.
        root.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._incoming.mkdir(exist_ok=True)
        objects_folder(root).mkdir(exist_ok=True)
        sync_folder(root)
        # One that this user may not read is the operator's, who has made the folder in it.
        with suppress(PermissionError):
            sync_folder(root.parent)

    @asynccontextmanager
    async def create(self, name: str, size: int) -> AsyncIterator[DiskUpload]:
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

    @property
    def journal_folder(self) -> Path:
        """The folder of the journal's segments, beside the objects."""
        return self.root / "journal"

    def write(self, contents: Mapping[str, Chunk]) -> None:
        """Make a file of each, in place, of which none is durable yet. For a thread; where it raises, none is there."""
        made: list[Path] = []
        try:
            for name, data in contents.items():
                path = path_of(self.root, name)
                try:
                    file = NewFile(path, len(data))
                except FileNotFoundError:
                    self._folders.make(path.parent)
                    file = NewFile(path, len(data))
                made.append(path)
                try:
                    file.write(data)
                finally:
                    file.close()
        except BaseException:
            for path in made:
                path.unlink(missing_ok=True)
            raise

    def rewrite(self, name: str, data: Chunk) -> None:
        """Make a file anew, in place, durably, whatever is there of it. For a thread."""
        path, incoming = path_of(self.root, name), incoming_path(self.root, name)
        self._folders.make(path.parent)
        incoming.unlink(missing_ok=True)
        file = NewFile(incoming, len(data))
        try:
            file.write(data)
            file.sync()
        finally:
            file.close()
        incoming.replace(path)
        self._folders.sync(path.parent)

    def sync(self, names: Iterable[str]) -> None:
        """Return when the files of these names are durable, those that are there. For a thread."""
        folders = set()
        for name in names:
            path = path_of(self.root, name)
            with suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                folders.add(path.parent)
        self._folders.sync(*folders)

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[DiskFile]:
        """Open the file in place; it stays readable while it is open, even when it is discarded."""
        stored = DiskFile(self.root, name)
        try:
            await stored.open()
            yield stored
        finally:
            await stored.close()

    def relative_path(self, name: str) -> str:
        """Return the path below the root."""
        return relative_path(name)

    async def stat(self, names: Iterable[str]) -> dict[str, int]:
        """Return the sizes of the files that exist."""
        return await on_disk(self._sizes, list(names))

    def _sizes(self, names: list[str]) -> dict[str, int]:
        sizes = {}
        for name in names:
            try:
                # Not by way of `Path`, which takes longer than the system: a batch asks for hundreds.
                status = os.stat(f"{self.root}/{relative_path(name)}")  # noqa: PTH116 - see above
            except (FileNotFoundError, NotADirectoryError):
                continue
            if stat.S_ISREG(status.st_mode):
                sizes[name] = status.st_size
        return sizes

    async def list_blobs(self) -> AsyncIterator[tuple[str, int]]:
        """Return what the folders hold, one folder at a time."""
        for first in await on_disk(subfolders, objects_folder(self.root)):
            for second in await on_disk(subfolders, first):
                for name, size in await on_disk(contents_of, second):
                    yield name, size

    async def delete(self, name: str) -> None:
        """Remove the file in place and the one in `incoming`, where they exist."""
        await on_disk(self._discard, name)

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
        status = await on_disk(os.statvfs, self.root)
        return status.f_bavail * status.f_frsize

    async def check(self) -> None:
        """Return if files can be made below the root; else raise OSError. A disk without room is well."""
        if not await run_in_thread(os.access, self._incoming, os.R_OK | os.W_OK | os.X_OK):
            raise OSError(f"{self._incoming}: cannot be written")
        await run_in_thread(self._make_file)

    def _make_file(self) -> None:
        """Make a file that has no name, and so is gone at once; where the system knows no such files, do nothing."""
        try:
            os.close(os.open(self._incoming, os.O_WRONLY | _NAMELESS | os.O_CLOEXEC, 0o600))
        except OSError as error:
            if error.errno not in (*NO_ROOM, *_NO_NAMELESS):
                raise
