"""Reads of blobs from an object store; see `services.storage.backends.base.StoredBytes`."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

import obstore
from obstore.store import ObjectStore

from services.common.rpc.options import CHUNK_BYTES
from services.storage.backends.base import BytesMissing
from services.storage.backends.object_store.deadlines import ANSWER_SECONDS, PIECE_SECONDS
from services.storage.backends.object_store.errors import asked

if TYPE_CHECKING:  # these are types of obstore that do not exist at run time
    from obstore import GetOptions, GetResult

# Large enough that a fast store sends few pieces; small enough that a slow store sends a piece within the deadlines.
_PIECE_BYTES = 256 * 1024
_PAGE = 1000


async def _get(store: ObjectStore, key: str, options: "GetOptions | None" = None) -> "GetResult":
    async with asked("get an object", ANSWER_SECONDS):
        try:
            return await obstore.get_async(store, key, options=options)
        except FileNotFoundError:
            raise BytesMissing("the object store has no bytes under this name") from None


async def open_object(store: ObjectStore, key: str) -> "StoredObject":
    """Request a blob. Raises `BytesMissing`."""
    return StoredObject(store, key, await _get(store, key))


async def size_of(store: ObjectStore, key: str) -> int | None:
    """Return the size of the value of a key in bytes; None if there is none. Raises as `asked` does."""
    async with asked("ask for the size of an object", ANSWER_SECONDS):
        try:
            return (await obstore.head_async(store, key))["size"]
        except FileNotFoundError:
            return None


async def list_keys(store: ObjectStore, folder: str | None) -> AsyncGenerator[tuple[str, int], None]:
    """Yield each key below a folder, or of the bucket, with its size in bytes; ascending, and one page at a time."""
    pages = obstore.list(store, folder, chunk_size=_PAGE)
    while True:
        async with asked("list objects", ANSWER_SECONDS):
            page = await anext(pages, None)
        if page is None:
            return
        for entry in page:
            yield entry["path"], entry["size"]


class StoredObject:
    """A blob, and the response to a request for all of it.

    That response has the size, and its body arrives as it is read, so that reading a blob from its beginning is one
    request. For any other range the response is dropped, and another request is made.
    """

    def __init__(self, store: ObjectStore, key: str, whole: "GetResult") -> None:
        self._store = store
        self._key = key
        self._whole: GetResult | None = whole
        self.size = whole.meta["size"]

    async def chunks(self, offset: int, length: int) -> AsyncIterator[bytes]:
        """Return bytes in chunks. If a connection breaks, the library requests the rest."""
        end = offset + length
        if offset < min(end, self.size):
            async with aclosing(self._pieces(offset, min(end, self.size))) as pieces:
                async for piece in pieces:
                    for start in range(0, len(piece), CHUNK_BYTES):
                        yield piece[start : start + CHUNK_BYTES]
                    offset += len(piece)
        if offset < end:
            raise BytesMissing(f"the bytes end at {offset}, expected {end}")

    def close(self) -> None:
        """Drop the response."""
        self._whole = None

    async def _pieces(self, offset: int, end: int) -> AsyncGenerator[bytes]:
        whole, self._whole = self._whole, None
        if offset or whole is None:
            whole = await _get(self._store, self._key, {"range": (offset, end)})
        stream = whole.stream(_PIECE_BYTES)
        left = end - offset
        while left:
            async with asked("get the bytes of an object", PIECE_SECONDS):
                try:
                    piece = await anext(stream, b"")
                except FileNotFoundError:
                    raise BytesMissing("the bytes were discarded meanwhile") from None
            if not piece:
                return
            piece = piece[:left]
            left -= len(piece)
            yield piece
