"""Uploads to an object store; see `services.storage.backends.base.Upload`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, Self

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from services.common.concurrency.uncancellable import run_to_completion
from services.common.errors import InvalidArgument, Reason
from services.storage.backends.base import Chunk, Upload
from services.storage.backends.object_store.deadlines import ABORT_SECONDS, FINISH_SECONDS, PIECE_SECONDS
from services.storage.backends.object_store.errors import asked

MEBIBYTE = 1024 * 1024

PART_BYTES = 5 * MEBIBYTE
"""The least that S3 accepts for a part that is not the last. An upload that fits in one part is put as a whole."""

_MAX_PARTS = 10_000
_MAX_BYTES = 5 * 1024**4

# An upload has two parts in memory: one that is being sent, and one that is being filled.
_MAX_CONCURRENT_PARTS = 1


class ObjectUpload(Upload, Protocol):
    """An upload that its owner closes."""

    async def close(self) -> None:
        """End the upload within a bounded time; abort it if it is unfinished."""


def part_bytes(size: int) -> int:
    """Return the size of each part but the last, a whole number of MiB, for an upload of `size` bytes.

    Parts are as small as S3 allows because each upload has two of them in memory. Raises `InvalidArgument` for more
    than 5 TiB, the limit for an object of S3.
    """
    if size > _MAX_BYTES:
        raise InvalidArgument(
            Reason.INVALID_FIELD,
            f"size: expected at most {_MAX_BYTES}, which is all that S3 takes, got {size}",
        )
    least = -(-size // _MAX_PARTS)
    return max(PART_BYTES, -(-least // MEBIBYTE) * MEBIBYTE)


@asynccontextmanager
async def uploading(store: ObjectStore, key: str, size: int) -> AsyncIterator[ObjectUpload]:
    """Begin an upload to a key; if it is left before its end, also by a cancellation, its parts are aborted.

    Raises `InvalidArgument` for a size that no store accepts.
    """
    length = part_bytes(size)
    upload: ObjectUpload = WholeUpload(store, key) if size <= PART_BYTES else PartedUpload(store, key, length)
    try:
        yield upload
    finally:
        await run_to_completion(upload.close())


class WholeUpload:
    """An upload of few bytes, which are sent once all of them have arrived."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._key = key
        self._held = bytearray()

    async def write(self, chunk: Chunk) -> None:
        """Buffer bytes. Raises ValueError if they are more than one part."""
        if len(self._held) + len(chunk) > PART_BYTES:
            raise ValueError(f"expected at most {PART_BYTES} bytes, as announced")
        self._held += chunk

    async def finish(self) -> None:
        """Put the bytes."""
        data = bytes(self._held)
        self._held.clear()
        async with asked("put an object", FINISH_SECONDS):
            await obstore.put_async(self._store, self._key, data, use_multipart=False)

    async def close(self) -> None:
        """Release the bytes."""
        self._held.clear()


class _Abandoned(Exception):
    """The upload is abandoned."""


class _Body:
    """An async iterator of chunks, with a buffer of one chunk, between the writer and the library that sends them.

    The library aborts the upload if the iterator raises.
    """

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[Chunk] = asyncio.Queue(maxsize=1)
        self.abandoned = False

    async def add(self, chunk: Chunk) -> None:
        """Add a chunk as soon as the buffer is empty; an empty chunk marks the end."""
        await self._chunks.put(chunk)

    def unblock(self) -> None:
        """Let a waiting `add` return, because nothing takes the chunks any more."""
        while not self._chunks.empty():
            self._chunks.get_nowait()

    def abandon(self) -> None:
        """Make the iterator raise `_Abandoned` in place of the buffered chunk."""
        self.abandoned = True
        self.unblock()
        self._chunks.put_nowait(b"")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        chunk = await self._chunks.get()
        if self.abandoned:
            raise _Abandoned
        if not chunk:
            raise StopAsyncIteration
        return chunk


class PartedUpload:
    """A multipart upload, whose parts are sent while bytes arrive."""

    def __init__(self, store: ObjectStore, key: str, length: int) -> None:
        self._store = store
        self._key = key
        self._length = length
        self._body = _Body()
        self._put = asyncio.create_task(self._send())
        self._put.add_done_callback(lambda _: self._body.unblock())

    async def write(self, chunk: Chunk) -> None:
        """Hand bytes to the sending task. Raises the error of that task."""
        if chunk:
            await self._hand_over(chunk)

    async def finish(self) -> None:
        """Mark the end of the bytes, and wait until the store has assembled the parts."""
        await self._hand_over(b"")
        async with asked("finish an upload in parts", FINISH_SECONDS):
            await asyncio.shield(self._put)

    async def close(self) -> None:
        """Abort the upload unless it is done."""
        if not self._put.done():
            self._body.abandon()
            await asyncio.wait({self._put}, timeout=ABORT_SECONDS)
            self._put.cancel()
            await asyncio.wait({self._put})
        if not self._put.cancelled():
            # Retrieve the error, so that asyncio does not log it: a caller that waited for the task has received it.
            self._put.exception()

    async def _hand_over(self, chunk: Chunk) -> None:
        if not self._put.done():
            async with asked("send a part", PIECE_SECONDS):
                await self._body.add(chunk)
        if self._put.done():
            await self._put

    async def _send(self) -> None:
        # No timeout for the whole: `write` and `finish` have timeouts, and `close` ends this task in any case.
        async with asked("send an upload in parts", None):
            try:
                await obstore.put_async(
                    self._store,
                    self._key,
                    self._body,
                    use_multipart=True,
                    chunk_size=self._length,
                    max_concurrency=_MAX_CONCURRENT_PARTS,
                )
            except (BaseError, FileNotFoundError):
                if self._body.abandoned:
                    raise _Abandoned from None
                raise
