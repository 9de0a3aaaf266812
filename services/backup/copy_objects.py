"""Copies and reads of objects, verified: their size and hash are checked at the end of the bytes."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

from services.backup.folder import BackupFolder
from services.backup.object_list import Entry
from services.common.concurrency.files import new_file, pieces_of
from services.common.concurrency.uncancellable import run_in_thread
from services.common.errors import Unavailable
from services.storage.backends.base import Backend, BytesMissing


class DamagedBytes(Exception):
    """The bytes are missing, cannot be read, or are not those of the object; the message has the problem."""


async def copy_out(backend: Backend, folder: BackupFolder, entry: Entry, *, stored_as: str) -> None:
    """Copy an object, from its blob `stored_as` in the backend, into the backup.

    The bytes are durable on return, and their file name after `BackupFolder.sync_objects`. Raises `DamagedBytes`.
    """
    path = folder.new_file(entry.name)
    try:
        async with (
            new_file(path) as file,
            aclosing(stored_bytes(backend, entry._replace(name=stored_as))) as chunks,
        ):
            async for chunk in chunks:
                await run_in_thread(file.write, chunk)
        await run_in_thread(folder.put, path, entry.name)
    finally:
        await run_in_thread(path.unlink, missing_ok=True)


async def copy_in(folder: BackupFolder, backend: Backend, entry: Entry) -> None:
    """Copy an object from the backup to the backend. Raises `DamagedBytes`, and then leaves no blob behind."""
    # An interrupted restore may have left a part of the blob.
    await backend.delete(entry.name)
    async with (
        backend.create(entry.name, entry.size) as upload,
        aclosing(_copied_bytes(folder.object(entry.name), entry.oid, entry.size)) as chunks,
    ):
        async for chunk in chunks:
            await upload.write(chunk)
        await upload.finish()


async def stored_bytes(backend: Backend, entry: Entry) -> AsyncGenerator[bytes]:
    """Yield the bytes of an object from its store. Raises `DamagedBytes`, at the latest at their end."""
    try:
        async with backend.open(entry.name) as stored:
            _require_size(stored.size, entry.size)
            async with aclosing(_verified(stored.chunks(0, entry.size), entry.oid, entry.size)) as chunks:
                async for chunk in chunks:
                    yield chunk
    except BytesMissing as error:
        raise DamagedBytes(str(error)) from error
    except Unavailable as error:
        # A disk's error concerns the bytes; a remote store that does not answer says nothing about them.
        if backend.is_remote or not isinstance(error.__cause__, OSError):
            raise
        raise DamagedBytes(f"cannot be read: {error.__cause__.strerror or error}") from error


async def _copied_bytes(path: Path, oid: str, size: int) -> AsyncGenerator[bytes]:
    """Yield the bytes of an object from a file of a backup. Raises `DamagedBytes`, at the latest at their end."""
    try:
        async with aclosing(_verified(pieces_of(path), oid, size)) as chunks:
            async for chunk in chunks:
                yield chunk
    except FileNotFoundError as error:
        raise DamagedBytes("the file does not exist") from error
    except OSError as error:
        raise DamagedBytes(f"cannot be read: {error.strerror or error}") from error


async def _verified(chunks: AsyncIterator[bytes], oid: str, size: int) -> AsyncGenerator[bytes]:
    digest, count = hashlib.sha256(), 0
    async for chunk in chunks:
        await run_in_thread(digest.update, chunk)
        count += len(chunk)
        yield chunk
    _require_size(count, size)
    if digest.hexdigest() != oid:
        raise DamagedBytes("the SHA-256 of its bytes is another")


def _require_size(found: int, expected: int) -> None:
    if found != expected:
        raise DamagedBytes(f"{found} bytes, expected {expected}")
