"""Readers of one object: of a file that is kept, of one on its way, and of what only passes through."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing

from services.cache.fetch import HELD_BACK_BYTES, Fetch
from services.cache.source import check_hash, read_object
from services.cache.store import Entry, ObjectStore
from services.cache.tokens import Grant
from services.cache.upstream import Upstream
from services.common.concurrency.uncancellable import run_in_thread
from services.common.errors import DataLoss, Reason
from services.common.files import OwnedDescriptor
from services.facade.server.sendfile import FilePart
from services.facade.web.ranges import ByteRange

# A client must read a whole piece within `body_idle_seconds`.
_PIECE_BYTES = 1024 * 1024

Pieces = AsyncGenerator[bytes | FilePart, None]


class Reader(ABC):
    """An object that is open for one caller, who closes it."""

    is_whole_only = False
    """True where no part of the object can be read, only all of it."""

    @abstractmethod
    def pieces(self, part: ByteRange, *, by_kernel: bool) -> Pieces:
        """Yield a part of the object in pieces of at most 1 MiB, each valid until the next is requested.

        With `by_kernel`, those of a file are yielded unread. Raises the errors of the fetch, EOFError and OSError; the
        bytes yielded by then are never a whole object that is wrong.
        """

    @abstractmethod
    async def close(self) -> None:
        """End the reading."""


class Damaged(DataLoss):
    """A kept file is not the object any more; it was dropped, so that whoever asks next has it fetched."""

    def __init__(self, oid: str) -> None:
        super().__init__(Reason.OBJECT_DAMAGED, f"the cache had a damaged file of object {oid}; try again")


class KeptReader(Reader):
    """Reads a file that is kept."""

    def __init__(self, store: ObjectStore, entry: Entry, file: OwnedDescriptor) -> None:
        self._store = store
        self._entry = entry
        self._file = file

    async def pieces(self, part: ByteRange, *, by_kernel: bool) -> Pieces:
        """Yield a part of the file; of all of it, the last piece after its hash is known to be right.

        Raises `Damaged` instead of the last piece.
        """
        is_whole = part == ByteRange(0, self._entry.size)
        hashed, count = hashlib.sha256(), 0
        async with aclosing(_file_pieces(self._file.number, part, by_kernel=by_kernel)) as pieces:
            async for piece in pieces:
                if is_whole:
                    count += await run_in_thread(_hash, hashed, piece)
                    if count == part.end and hashed.hexdigest() != self._entry.oid:
                        await self._store.drop(self._entry)
                        raise Damaged(self._entry.oid)
                yield piece

    async def close(self) -> None:
        """Close the file, and let it be removed."""
        try:
            await run_in_thread(self._file.close)
        finally:
            self._store.close_object(self._entry)


class TailReader(Reader):
    """Reads the file of a fetch as it grows; the fetch has counted it by `join`."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def pieces(self, part: ByteRange, *, by_kernel: bool) -> Pieces:
        """Yield a part of the file, waiting for bytes that have not come."""
        position = part.start
        while position < part.end:
            end = min(part.end, await self._fetch.wait_for(position))
            found = ByteRange(position, end)
            async with aclosing(_file_pieces(self._fetch.file.number, found, by_kernel=by_kernel)) as pieces:
                async for piece in pieces:
                    yield piece
                    # No more of an object that has turned out to be wrong.
                    if self._fetch.error is not None:
                        raise self._fetch.error
            position = end

    async def close(self) -> None:
        """Leave the fetch."""
        await self._fetch.leave()


class PassingReader(Reader):
    """Reads an object that is not kept from the upstream, for one caller."""

    is_whole_only = True

    def __init__(self, upstream: Upstream, grant: Grant) -> None:
        self._grant = grant
        self._chunks = read_object(upstream, grant)

    async def pieces(self, part: ByteRange, *, by_kernel: bool) -> Pieces:
        """Yield the whole object, its last bytes after its hash is known to be right."""
        hashed = hashlib.sha256()
        held = bytearray()
        async for chunk in self._chunks:
            hashed.update(chunk)
            held += chunk
            if len(held) > 2 * HELD_BACK_BYTES:
                yield bytes(held[:-HELD_BACK_BYTES])
                del held[:-HELD_BACK_BYTES]
        check_hash(self._grant, hashed)
        yield bytes(held)

    async def close(self) -> None:
        """End the request to the upstream."""
        await self._chunks.aclose()


def _hash(hashed: "hashlib._Hash", piece: bytes | FilePart) -> int:
    """Add a piece to a hash, and return its bytes: fewer than it should have where the file has become shorter."""
    data = piece if isinstance(piece, bytes) else os.pread(piece.file, piece.count, piece.offset)
    hashed.update(data)
    return len(data)


async def _file_pieces(file: int, part: ByteRange, *, by_kernel: bool) -> Pieces:
    for offset in range(part.start, part.end, _PIECE_BYTES):
        count = min(_PIECE_BYTES, part.end - offset)
        if by_kernel:
            yield FilePart(file, offset, count)
            continue
        data = await run_in_thread(os.pread, file, count, offset)
        if len(data) != count:
            raise EOFError(f"the file ends at {offset + len(data)}, expected {part.end} bytes")
        yield data
