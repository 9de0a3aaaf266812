"""The body of an upload: a queue between the writer of the bytes and the library that sends them."""

import asyncio
from typing import Self

from services.storage.backends.base import Chunk


class Abandoned(Exception):
    """The upload is abandoned."""


class Body:
    """An async iterator of chunks, with a buffer of one chunk. The library aborts the upload if the iterator raises."""

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
        """Make the iterator raise `Abandoned` in place of the buffered chunk."""
        self.abandoned = True
        self.unblock()
        self._chunks.put_nowait(b"")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        chunk = await self._chunks.get()
        if self.abandoned:
            raise Abandoned
        if not chunk:
            raise StopAsyncIteration
        return chunk
