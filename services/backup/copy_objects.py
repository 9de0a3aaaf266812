"""The copying of objects into a backup and out of it."""

import os
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO

from services.backup.folder import BackupFolder
from services.backup.object_list import Entry
from services.backup.verify_bytes import copied_bytes, stored_bytes
from services.common.concurrency.uncancellable import run_in_thread
from services.storage.backends.base import Backend


async def copy_out(backend: Backend, folder: BackupFolder, entry: Entry, *, stored_as: str) -> None:
    """Copy an object, from its blob `stored_as` in the backend, into the backup.

    The bytes are durable on return, and their file name after `BackupFolder.sync_objects`. Raises `DamagedBytes`.
    """
    path = folder.new_file(entry.name)
    file = await run_in_thread(path.open, "xb")
    try:
        async with aclosing(stored_bytes(backend, entry._replace(name=stored_as))) as chunks:
            async for chunk in chunks:
                await run_in_thread(file.write, chunk)
        await run_in_thread(_end, file)
        await run_in_thread(folder.put, path, entry.name)
    finally:
        await run_in_thread(_discard, file, path)


def _end(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _discard(file: BinaryIO, path: Path) -> None:
    file.close()
    path.unlink(missing_ok=True)


async def copy_in(folder: BackupFolder, backend: Backend, entry: Entry) -> None:
    """Copy an object from the backup to the backend. Raises `DamagedBytes`, and then leaves no blob behind."""
    # An interrupted restore may have left a part of the blob.
    await backend.delete(entry.name)
    async with (
        backend.create(entry.name, entry.size) as upload,
        aclosing(copied_bytes(folder.object(entry.name), entry.oid, entry.size)) as chunks,
    ):
        async for chunk in chunks:
            await upload.write(chunk)
        await upload.finish()
