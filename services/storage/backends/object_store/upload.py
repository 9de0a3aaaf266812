"""Uploads to an object store; see `services.storage.backends.base.Upload`."""

import asyncio
from typing import Protocol

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from services.storage.backends.base import Chunk, Upload
from services.storage.backends.object_store.body import Abandoned, Body
from services.storage.backends.object_store.deadlines import ABORT_SECONDS, FINISH_SECONDS, PIECE_SECONDS
from services.storage.backends.object_store.errors import asked
from services.storage.backends.object_store.parts import PART_BYTES, part_bytes

# An upload has two parts in memory: one that is being sent, and one that is being filled.
_MAX_CONCURRENT_PARTS = 1


class ObjectUpload(Upload, Protocol):
    """An upload that its owner closes."""

    async def close(self) -> None:
        """End the upload within a bounded time; abort it if it is unfinished."""


def new_upload(store: ObjectStore, key: str, size: int) -> ObjectUpload:
    """Begin an upload to a key. Raises `InvalidArgument` for a size that no store accepts."""
    length = part_bytes(size)
    return WholeUpload(store, key) if size <= PART_BYTES else PartedUpload(store, key, length)


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


class PartedUpload:
    """A multipart upload, whose parts are sent while bytes arrive."""

    def __init__(self, store: ObjectStore, key: str, length: int) -> None:
        self._store = store
        self._key = key
        self._length = length
        self._body = Body()
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
                    raise Abandoned from None
                raise
