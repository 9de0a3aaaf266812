"""The folder of a backup, on any file system: its layout, and the writes to it.

DIR/manifest.json                  the parts of the backup; replaced last, atomically
DIR/index/SNAPSHOT/SCHEMA.TABLE    the rows of a table
DIR/index/SNAPSHOT/objects         the oid, the size and the name of each object, a line each, ascending by oid
DIR/objects/ab/cd/NAME             the bytes of an object, as in the storage; they stay from one backup to the next
DIR/incoming/                      files that are being written
DIR/lock                           locked by the backup that writes here
"""

import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from services.backup.errors import BackupError
from services.storage.backends.disk.durable import DurableDirectories, sync_folder
from services.storage.backends.disk.listing import contents_of, subfolders
from services.storage.backends.disk.paths import path_of
from services.storage.blob_names import oid_of

_OURS = {"manifest.json", "manifest.json.new", "index", "objects", "incoming", "lock"}


class BackupFolder:
    """A backup's folder. All methods block, and therefore belong in threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = path / "manifest.json"
        self._incoming = path / "incoming"
        self._folders = DurableDirectories(path)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Create the folder if it is missing, and lock other backups out of it.

        Raises `BackupError` if the folder has foreign files, or if another backup writes here.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        strange = {entry.name for entry in self.path.iterdir()} - _OURS - {"lost+found"}
        if strange:
            raise BackupError(f"{self.path}: expected an empty folder or a backup, found {min(strange)}")
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise BackupError(f"{self.path}: another backup writes here") from None
        try:
            shutil.rmtree(self._incoming, ignore_errors=True)
            self._incoming.mkdir(exist_ok=True)
            yield
        finally:
            shutil.rmtree(self._incoming, ignore_errors=True)
            os.close(lock)

    def snapshot(self, name: str) -> Path:
        """Return the folder of a snapshot of the database."""
        return self.path / "index" / name

    def object(self, name: str) -> Path:
        """Return the path of an object's bytes."""
        return path_of(self.path, name)

    def size_of(self, name: str) -> int | None:
        """Return the size of an object's file; None if there is no regular file."""
        try:
            status = self.object(name).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def new_file(self, name: str) -> Path:
        """Return the path of a new file, in which the bytes of an object are written."""
        return self._incoming / f"{name}.{secrets.token_hex(4)}"

    def put(self, file: Path, name: str) -> None:
        """Move a whole and durable file to an object's path. Its name there is durable after `sync_objects`."""
        final = self.object(name)
        self._folders.ensure(final.parent)
        file.replace(final)

    def take_over(self, name: str, size: int) -> bool:
        """Link a name to the bytes that an earlier backup has of the same object; return whether it has any.

        Each store has another blob name for an object. With the link, the bytes need not be read again when another
        store becomes the primary.
        """
        final = self.object(name)
        try:
            for other, found in contents_of(final.parent):
                if oid_of(other) == oid_of(name) and found == size:
                    os.link(final.with_name(other), final)
                    return True
        except OSError:
            # No folder yet, a file system without hard links, or another obstacle: the bytes are copied then.
            return False
        return False

    def sync_objects(self) -> None:
        """Make the file names of all objects durable."""
        for first in subfolders(self.path / "objects"):
            for second in subfolders(first):
                sync_folder(second)

    def objects(self) -> Iterator[tuple[str, int]]:
        """Yield the names and sizes of the objects in the folder, ordered by name."""
        for first in subfolders(self.path / "objects"):
            for second in subfolders(first):
                yield from contents_of(second)

    def make_snapshot(self, name: str) -> Path:
        """Create the folder of a snapshot and return it."""
        folder = self.snapshot(name)
        self._folders.ensure(folder)
        return folder

    def commit(self, manifest: str, snapshot: str) -> None:
        """Replace the manifest, atomically and durably, and remove the snapshots of earlier backups."""
        sync_folder(self.snapshot(snapshot))
        new = self.path / "manifest.json.new"
        with new.open("w") as file:
            file.write(manifest)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.manifest)
        sync_folder(self.path)
        for folder in subfolders(self.path / "index"):
            if folder.name != snapshot:
                shutil.rmtree(folder, ignore_errors=True)

    def discard_snapshot(self, name: str) -> None:
        """Remove an unfinished snapshot."""
        shutil.rmtree(self.snapshot(name), ignore_errors=True)

    def remove(self, name: str) -> None:
        """Remove the bytes of an object."""
        with suppress(FileNotFoundError):
            self.object(name).unlink()
