"""Uploads to the disk."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from services.storage.backends.base import Chunk
from services.storage.backends.disk.durable import DurableDirectories
from services.storage.backends.disk.errors import on_disk
from services.storage.backends.disk.new_file import NewFile
from services.storage.backends.disk.paths import incoming_path, path_of


class DiskUpload:
    """One upload; see `services.storage.backends.base.Upload`. The owner calls `close` in any case.

    Bytes that arrive in one chunk stay in memory until `finish`, which does all the work in one thread hop: for small
    objects thread hops cost more than the work. The file is then created at its final path. In any other upload the
    first chunk creates the file in `incoming`.
    """

    def __init__(self, root: Path, folders: DurableDirectories, name: str, size: int, *, held: Chunk = b"") -> None:
        self._folders = folders
        self._path = incoming_path(root, name)
        self._final = path_of(root, name)
        self._size = size
        self._held = held
        self._file: NewFile | None = None
        self._is_durable = False

    async def write(self, chunk: Chunk) -> None:
        """Append bytes. Raises FileExistsError for a blob name that is already in use."""
        if self._file is None and not self._held and len(chunk) == self._size:
            self._held = chunk
        else:
            await on_disk(self._write, chunk)

    async def finish(self) -> None:
        """Put the file in place, durably. Raises FileExistsError as `write` does."""
        await put_in_place([self], self._folders)

    async def close(self) -> None:
        """End the upload, and delete its file unless the file is in place."""
        if self._file is not None:
            await on_disk(self.discard)

    def _opened(self) -> NewFile:
        if self._file is None:
            self._file = NewFile(self._path, self._size)
        return self._file

    def _write(self, chunk: Chunk) -> None:
        file = self._opened()
        if self._held:
            file.write(self._held)
            self._held = b""
        file.write(chunk)

    def rename_into_place(self) -> None:
        """Give the file its final path, and start writeback of its bytes."""
        self._folders.make(self._final.parent)
        if self._file is None:
            self._path = self._final
            self._write(b"")
        else:
            self._path = self._path.rename(self._final)
        self._opened().start_sync()

    def sync(self) -> None:
        """Make the bytes durable."""
        self._opened().sync()

    @property
    def folder(self) -> Path:
        """The folder of the final path."""
        return self._final.parent

    def keep(self) -> None:
        """Mark the file as durable, so that `discard` leaves it in place."""
        self._is_durable = True

    def discard(self) -> None:
        """Close the file, and delete it unless it is durable."""
        if self._file is None:
            return
        try:
            if not self._is_durable:
                self._path.unlink(missing_ok=True)
        finally:
            self._file.close()
            self._file = None


async def put_in_place(uploads: Sequence[DiskUpload], folders: DurableDirectories) -> None:
    """Put the files of uploads in place durably, in one thread hop, and end the uploads.

    Raises FileExistsError as `DiskUpload.write` does, and what `on_disk` raises; no file is durable then.
    """
    await on_disk(_put_in_place, uploads, folders)


def _put_in_place(uploads: Sequence[DiskUpload], folders: DurableDirectories) -> None:
    with ExitStack() as ending:
        for upload in uploads:
            ending.callback(upload.discard)
        # Rename before syncing, because no reader looks under the names before this returns, and because a journaling
        # file system then writes the names together with the bytes.
        for upload in uploads:
            upload.rename_into_place()
        for upload in uploads:
            upload.sync()
        folders.sync(*(upload.folder for upload in uploads))
        for upload in uploads:
            upload.keep()
