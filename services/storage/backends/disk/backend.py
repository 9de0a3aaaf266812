"""The disk backend."""

import errno
import os
import stat
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

from services.common.concurrency.uncancellable import run_in_thread
from services.storage.backends.base import Chunk
from services.storage.backends.disk.durable import DurableDirectories, sync_file, sync_folder
from services.storage.backends.disk.errors import NO_FILE, NO_ROOM, on_disk
from services.storage.backends.disk.listing import contents_of, subfolders
from services.storage.backends.disk.new_file import NewFile
from services.storage.backends.disk.paths import incoming_path, objects_folder, path_of, relative_path
from services.storage.backends.disk.reading import DiskFile
from services.storage.backends.disk.upload import DiskUpload, put_in_place

# Not every system has O_TMPFILE, nor does every file system support it.
_NAMELESS: int = getattr(os, "O_TMPFILE", 0)
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


class DiskBackend:
    """Blobs as files below `root`, which is created if missing; see `services.storage.backends.base.Backend`.

    The file system must support atomic renames. Several processes may share one root.
    """

    is_remote = False
    signing = None

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders = DurableDirectories(root)
        self._incoming = root / "incoming"
        # Objects may be private: other users of the host must not read them.
        root.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._incoming.mkdir(exist_ok=True)
        objects_folder(root).mkdir(exist_ok=True)
        sync_folder(root)
        # A parent that this user may not read belongs to the operator, who has created the root in it.
        with suppress(PermissionError):
            sync_folder(root.parent)

    @asynccontextmanager
    async def create(self, name: str, size: int) -> AsyncIterator[DiskUpload]:
        """Begin an upload; leaving the context before `finish` deletes its file."""
        upload = DiskUpload(self.root, self._folders, name, size)
        try:
            yield upload
        finally:
            await upload.close()

    async def put(self, contents: Mapping[str, Chunk]) -> None:
        """Write a file for each blob, all in one thread hop."""
        await put_in_place(
            [DiskUpload(self.root, self._folders, name, len(data), held=data) for name, data in contents.items()],
            self._folders,
        )

    @property
    def journal_folder(self) -> Path:
        """The folder of the journal's segments, beside the objects."""
        return self.root / "journal"

    def write(self, contents: Mapping[str, Chunk]) -> None:
        """Write a file for each blob, in place but not yet durable. Blocks; leaves no file behind if it raises."""
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
                with closing(file):
                    file.write(data)
        except BaseException:
            for path in made:
                path.unlink(missing_ok=True)
            raise

    def rewrite(self, name: str, data: Chunk) -> None:
        """Write the file of a blob anew, in place and durably, whatever is left of the old file. Blocks."""
        path, incoming = path_of(self.root, name), incoming_path(self.root, name)
        self._folders.make(path.parent)
        incoming.unlink(missing_ok=True)
        with closing(NewFile(incoming, len(data))) as file:
            file.write(data)
            file.sync()
        incoming.replace(path)
        self._folders.sync(path.parent)

    def sync(self, names: Iterable[str]) -> None:
        """Make the existing files of these names durable. Blocks."""
        folders = set()
        for name in names:
            path = path_of(self.root, name)
            with suppress(FileNotFoundError):
                sync_file(path)
                folders.add(path.parent)
        self._folders.sync(*folders)

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[DiskFile]:
        """Open the file in place; it stays readable while it is open, even after its deletion."""
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
                # `Path` takes longer than the system call itself, and a batch asks for hundreds of names.
                status = os.stat(f"{self.root}/{relative_path(name)}")  # noqa: PTH116 - see above
            except OSError as error:
                if error.errno not in NO_FILE:
                    raise
                continue
            if stat.S_ISREG(status.st_mode):
                sizes[name] = status.st_size
        return sizes

    async def list_blobs(self) -> AsyncIterator[tuple[str, int]]:
        """Return the blobs of one folder after the other."""
        for first in await on_disk(subfolders, objects_folder(self.root)):
            for second in await on_disk(subfolders, first):
                for name, size in await on_disk(contents_of, second):
                    yield name, size

    async def delete(self, name: str) -> None:
        """Remove the file in place and the file in `incoming`, if they exist."""
        await on_disk(self._discard, name)

    def _discard(self, name: str) -> None:
        # In this order, so that an upload that is still running finds no file to put in place afterwards.
        incoming_path(self.root, name).unlink(missing_ok=True)
        path = path_of(self.root, name)
        try:
            path.unlink()
        except FileNotFoundError:
            return
        sync_folder(path.parent)

    async def available_bytes(self) -> int:
        """Return the bytes that the file system has free for this user."""
        status = await on_disk(os.statvfs, self.root)
        return status.f_bavail * status.f_frsize

    async def check(self) -> None:
        """Return if files can be created below the root; raise OSError if not. A full disk passes."""
        if not await run_in_thread(os.access, self._incoming, os.R_OK | os.W_OK | os.X_OK):
            raise OSError(f"{self._incoming}: cannot be written")
        await run_in_thread(self._make_file)

    def _make_file(self) -> None:
        """Create a nameless file, which vanishes on close; do nothing if the system has no nameless files."""
        try:
            os.close(os.open(self._incoming, os.O_WRONLY | _NAMELESS | os.O_CLOEXEC, 0o600))
        except OSError as error:
            if error.errno not in (*NO_ROOM, *_NO_NAMELESS):
                raise
