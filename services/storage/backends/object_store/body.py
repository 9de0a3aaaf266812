"""The bytes of an upload between those who bring them and the library that sends them."""

import asyncio
from typing import Self

from services.storage.backends.base import Chunk


class Abandoned(Exception):
    """The upload is given up."""


class Body:
    """An async iterator of chunks, which holds one. The library gives the upload up where the iterator raises."""

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[Chunk] = asyncio.Queue(maxsize=1)
        self.abandoned = False

    async def add(self, chunk: Chunk) -> None:
        """Add a chunk when the one before it was taken; an empty one is the end."""
        await self._chunks.put(chunk)

    def unblock(self) -> None:
        """Let an `add` that waits return; nobody takes the chunks any more."""
        while not self._chunks.empty():
            self._chunks.get_nowait()

    def abandon(self) -> None:
        """Make the iterator raise `Abandoned` in place of the chunk that it holds."""
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
