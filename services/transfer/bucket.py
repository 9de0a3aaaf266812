"""A bucket as the place that objects come from, or go to."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Self

from services.cli.errors import CommandError
from services.cli.pointers.named import SIZE_BYTES, Pointer
from services.cli.pointers.oid_spool import OidSpool
from services.common.errors import InvalidArgument, ResourceExhausted, Unavailable
from services.common.store_urls import without_credentials
from services.storage.backends.base import BytesMissing
from services.storage.backends.object_store.prefix import Prefix
from services.storage.backends.object_store.reading import StoredObject
from services.transfer.errors import Interrupted, Kind, ObjectProblem
from services.transfer.folder import SAMPLE
from services.transfer.layout import OWN, Layouts
from services.transfer.places import Lacking, exactly

_MAX_CONCURRENT_REQUESTS = 16


class _Bucket:
    """A prefix in a bucket; its credentials come from the environment, files or roles."""

    def __init__(self, name: str, prefix: Prefix) -> None:
        self.name = name
        self._prefix = prefix

    @classmethod
    async def open(cls, url: str) -> Self:
        """Open it. Raises `CommandError`."""
        try:
            return cls(without_credentials(url), await Prefix.open(url))
        except ValueError as error:
            raise CommandError(str(error).removeprefix("storage_url: ")) from error

    def _failed(self, error: Unavailable | ResourceExhausted) -> CommandError:
        return CommandError(f"{self.name}: {error.message}")


class BucketSource(_Bucket):
    """A prefix with objects in any layout whose keys end in the oids; see `layout.oid_of`."""

    def __init__(self, name: str, prefix: Prefix) -> None:
        super().__init__(name, prefix)
        self._layouts = Layouts()
        self._is_known = False

    async def add_all(self, spool: OidSpool) -> None:
        """Add what the prefix has."""
        async with aclosing(self._walk()) as found:
            async for oid, size in found:
                spool.add(bytes.fromhex(oid) + size.to_bytes(SIZE_BYTES))
        self._is_known = True

    async def announce(self, pointers: Sequence[Pointer]) -> None:
        """Learn the layout."""
        if not pointers or self._is_known:
            return
        count = 0
        async with aclosing(self._walk()) as found:
            async for _ in found:
                count += 1
                if count == SAMPLE:
                    break
        self._is_known = True

    async def read(self, pointer: Pointer) -> AsyncGenerator[bytes, None]:
        """Yield the bytes; if a connection breaks, the library asks for the rest."""
        for path in self._layouts.paths_of(pointer.oid):
            try:
                async with (
                    self._prefix.opened(path) as stored,
                    aclosing(exactly(pointer, _bytes_of(stored))) as chunks,
                ):
                    async for chunk in chunks:
                        yield chunk
                return  # noqa: TRY300 - the loop goes on where there is none
            except BytesMissing:
                continue
            except Unavailable as error:
                raise Interrupted(error.message) from error
        raise ObjectProblem(Kind.MISSING, "the bucket does not have it")

    async def _walk(self) -> AsyncGenerator[tuple[str, int], None]:
        try:
            async with aclosing(self._prefix.list_paths()) as paths:
                async for path, size in paths:
                    if (oid := self._layouts.learn(path.split("/"))) is not None:
                        yield oid, size
        except Unavailable as error:
            raise self._failed(error) from error


class BucketSink(_Bucket):
    """A prefix that objects go to as `ab/cd/OID`."""

    verifies = False
    max_group = 1

    async def lacking(self, pointers: Sequence[Pointer]) -> Lacking:
        """Look for keys of the names, with the sizes, several at a time."""
        free = asyncio.Semaphore(_MAX_CONCURRENT_REQUESTS)

        async def is_lacking(pointer: Pointer) -> bool:
            async with free:
                return await self._prefix.size(OWN.path_of(pointer.oid)) != pointer.size

        try:
            found = await asyncio.gather(*map(is_lacking, pointers))
        except Unavailable as error:
            raise self._failed(error) from error
        return Lacking([pointer for pointer, lacks in zip(pointers, found, strict=True) if lacks], {})

    async def write(self, pointer: Pointer, chunks: AsyncGenerator[bytes, None]) -> None:
        """Put the bytes; the key has them once all of them are there."""
        async with aclosing(chunks):
            try:
                async with self._prefix.new(OWN.path_of(pointer.oid), pointer.size) as upload:
                    async for chunk in chunks:
                        await upload.write(chunk)
                    await upload.finish()
            except Unavailable as error:
                raise Interrupted(error.message) from error
            except InvalidArgument as error:
                raise ObjectProblem(Kind.FAILED, error.message) from error
            except ResourceExhausted as error:
                raise self._failed(error) from error

    async def write_small(self, objects: Sequence[tuple[Pointer, bytes]]) -> Sequence[ObjectProblem | None]:
        """Not called: `max_group` is 1."""
        raise NotImplementedError


async def _bytes_of(stored: StoredObject) -> AsyncGenerator[bytes, None]:
    chunks: AsyncIterator[bytes] = stored.chunks(0, stored.size)
    try:
        async for chunk in chunks:
            yield chunk
    except BytesMissing as error:
        raise ObjectProblem(Kind.WRONG, "there are fewer bytes than the store has told") from error
