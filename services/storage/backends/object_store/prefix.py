"""A prefix in a bucket whose keys another server has made, or will read: any keys, unlike those of the backend."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Self

from services.storage.backends.base import Upload
from services.storage.backends.object_store.bucket import Bucket
from services.storage.backends.object_store.opening import open_bucket
from services.storage.backends.object_store.reading import StoredObject, list_keys, open_object, size_of
from services.storage.backends.object_store.upload import uploading


class Prefix:
    """The keys below a prefix, by their paths after it. Each method raises `Unavailable` if the store fails."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self._bucket = bucket
        self._beginning = f"{prefix}/" if prefix else ""

    @classmethod
    async def open(cls, url: str) -> Self:
        """Open the prefix of a URL. Raises ValueError as `open_object_store` does."""
        bucket, location = await open_bucket(url)
        return cls(bucket, location.prefix)

    async def list_paths(self) -> AsyncGenerator[tuple[str, int], None]:
        """Yield the path and the size of every key, in ascending order."""
        async with aclosing(list_keys(self._bucket.requests, self._beginning.rstrip("/") or None)) as keys:
            async for key, size in keys:
                yield key.removeprefix(self._beginning), size

    async def size(self, path: str) -> int | None:
        """Return the size of a key in bytes; None if there is none."""
        return await size_of(self._bucket.requests, self._beginning + path)

    @asynccontextmanager
    async def opened(self, path: str) -> AsyncIterator[StoredObject]:
        """Request a key. Raises `BytesMissing`."""
        stored = await open_object(self._bucket.requests, self._beginning + path)
        try:
            yield stored
        finally:
            stored.close()

    @asynccontextmanager
    async def new(self, path: str, size: int) -> AsyncIterator[Upload]:
        """Begin an upload to a key, which is aborted if it is left before its end.

        Raises `InvalidArgument` for a size that no store accepts.
        """
        async with uploading(self._bucket.uploads, self._beginning + path, size) as upload:
            yield upload
