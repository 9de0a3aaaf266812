"""Verified reads of objects: their size and hash are checked at the end of the bytes."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

from services.backup.files import open_file
from services.backup.object_list import Entry
from services.common.concurrency.uncancellable import run_in_thread
from services.common.errors import Unavailable
from services.common.rpc.options import CHUNK_BYTES
from services.storage.backends.base import Backend, BytesMissing


class DamagedBytes(Exception):
    """The bytes are missing, cannot be read, or are not those of the object; the message has the problem."""


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


async def copied_bytes(path: Path, oid: str, size: int) -> AsyncGenerator[bytes]:
    """Yield the bytes of an object from a file of a backup. Raises `DamagedBytes`, at the latest at their end."""
    try:
        async with aclosing(_verified(_file_bytes(path), oid, size)) as chunks:
            async for chunk in chunks:
                yield chunk
    except FileNotFoundError as error:
        raise DamagedBytes("the file does not exist") from error
    except OSError as error:
        raise DamagedBytes(f"cannot be read: {error.strerror or error}") from error


async def _file_bytes(path: Path) -> AsyncGenerator[bytes]:
    file = await run_in_thread(open_file, path)
    try:
        while chunk := await run_in_thread(file.read, CHUNK_BYTES):
            yield chunk
    finally:
        await run_in_thread(file.close)


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
