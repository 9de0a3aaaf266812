"""The object store backend: blobs in S3, Google Cloud Storage or Azure Blob.

    BUCKET/PREFIX/objects/ab/cd/NAME

No blob is changed after it was put, and no key is used twice.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager

import obstore

from services.storage.backends.base import Chunk, StoredBytes, Upload
from services.storage.backends.object_store.bucket import Bucket
from services.storage.backends.object_store.deadlines import CHECK_SECONDS
from services.storage.backends.object_store.errors import asked
from services.storage.backends.object_store.keys import folder_of, key_of, name_of
from services.storage.backends.object_store.reading import list_keys, open_object, size_of
from services.storage.backends.object_store.upload import uploading
from services.storage.backends.signing import Signing

_MAX_CONCURRENT_REQUESTS = 8
# The readiness check runs every second, and each request to an object store costs money.
_CHECK_LASTS_SECONDS = 5.0


class ObjectStoreBackend:
    """A bucket; see `services.storage.backends.base.Backend`.

    `list_blobs` is in ascending order because all three clouds list by key.
    """

    is_remote = True

    def __init__(self, bucket: Bucket, prefix: str, signing: Signing) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self.signing: Signing | None = signing
        self._checked_at: float | None = None

    @asynccontextmanager
    async def create(self, name: str, size: int) -> AsyncIterator[Upload]:
        """Begin an upload. If it is left before its end, its parts are aborted, provided the store answers promptly."""
        async with uploading(self._bucket.uploads, key_of(self._prefix, name), size) as upload:
            yield upload

    async def put(self, contents: Mapping[str, Chunk]) -> None:
        """Put all blobs concurrently."""

        async def put(name: str, data: Chunk) -> None:
            async with self.create(name, len(data)) as upload:
                await upload.write(data)
                await upload.finish()

        ended = await asyncio.gather(*(put(*item) for item in contents.items()), return_exceptions=True)
        for error in filter(None, ended):
            raise error

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[StoredBytes]:
        """Request a blob."""
        stored = await open_object(self._bucket.requests, key_of(self._prefix, name))
        try:
            yield stored
        finally:
            stored.close()

    def relative_path(self, name: str) -> None:
        """Return None: blobs in a bucket lie in no folder."""

    async def stat(self, names: Iterable[str]) -> dict[str, int]:
        """Request the size of each blob, several at a time."""
        keys = iter({name: key_of(self._prefix, name) for name in names}.items())
        found: dict[str, int] = {}

        async def ask() -> None:
            for name, key in keys:
                size = await size_of(self._bucket.requests, key)
                if size is not None:
                    found[name] = size

        tasks = [asyncio.create_task(ask()) for _ in range(_MAX_CONCURRENT_REQUESTS)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return found

    async def list_blobs(self) -> AsyncIterator[tuple[str, int]]:
        """List the bucket, one page at a time, without foreign keys."""
        async with aclosing(list_keys(self._bucket.requests, folder_of(self._prefix))) as keys:
            async for key, size in keys:
                if (name := name_of(self._prefix, key)) is not None:
                    yield name, size

    async def delete(self, name: str) -> None:
        """Remove a blob, and the parts of uploads to its key as far as the cloud allows (see `s3`, `gcs`, `azure`)."""
        await self._bucket.discard(key_of(self._prefix, name))

    async def available_bytes(self) -> None:
        """Return None: a bucket has no limit."""

    async def check(self) -> None:
        """Return if the bucket can be listed, or could be within the last `_CHECK_LASTS_SECONDS`."""
        now = time.monotonic()
        if self._checked_at is None or now - self._checked_at > _CHECK_LASTS_SECONDS:
            async with asked("list the bucket", CHECK_SECONDS):
                # A folder that is always empty, so that the listing is short.
                await obstore.list_with_delimiter_async(self._bucket.requests, f"{folder_of(self._prefix)}/check")
            self._checked_at = now
