"""Fan-out of an upload to the primary, and to the copies that keep up with it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from services.common.observability.logs import get_logger
from services.storage.backends.base import Chunk, Upload
from services.storage.index.contents import UploadedBlob
from services.storage.stores.registry import Store, StoreRegistry

_LATE_CHUNKS = 4
_LATE_SECONDS = 5.0
_END_SECONDS = 10.0

_log = get_logger(__name__)


@dataclass(frozen=True)
class UploadTarget:
    """A blob to be uploaded to one store. `replaces` is the object's blob name there when the upload began."""

    store: Store
    name: str
    replaces: str | None

    def uploaded(self, oid: str) -> UploadedBlob:
        """Return the uploaded blob, which is to become the blob of the object `oid`."""
        return UploadedBlob(self.store.id, oid, self.name, self.replaces, self.store.replaced_seconds)


class _ReplicaTask:
    """Work for a copy beside the work for the primary. A failure or slowness of the copy ends only this task."""

    def __init__(self, store: Store, work: Coroutine[object, object, None], stores: StoreRegistry) -> None:
        self._store = store
        self._stores = stores
        self._task = asyncio.create_task(work)

    async def finish(self) -> bool:
        """Return whether the blobs are in place in time."""
        await asyncio.wait({self._task}, timeout=_END_SECONDS)
        if not self._task.done():
            self._leave_behind("it is too slow")
        return self._task.done() and not self._task.cancelled() and self._task.exception() is None

    async def cancel(self) -> None:
        """Cancel the task if it is still running."""
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=_END_SECONDS)
        if self._task.done() and not self._task.cancelled() and (error := self._task.exception()) is not None:
            self._leave_behind(repr(error))

    def _leave_behind(self, why: str) -> None:
        self._task.cancel()
        self._stores.pause(self._store)
        _log.warning("a copy is left behind", store=self._store.name, why=why)


class _ReplicaUpload(_ReplicaTask):
    """The upload of one blob to a copy."""

    def __init__(self, target: UploadTarget, size: int, stores: StoreRegistry) -> None:
        self.incoming = target
        self._chunks: asyncio.Queue[Chunk | None] = asyncio.Queue(_LATE_CHUNKS)
        super().__init__(target.store, self._run(size), stores)

    async def _run(self, size: int) -> None:
        try:
            async with self.incoming.store.backend.create(self.incoming.name, size) as upload:
                while (chunk := await self._chunks.get()) is not None:
                    await upload.write(chunk)
                await upload.finish()
        finally:
            # Let a waiting `add` return, because nothing takes its chunk any more.
            while not self._chunks.empty():
                self._chunks.get_nowait()

    async def add(self, chunk: Chunk | None) -> None:
        """Add a chunk; None marks the end."""
        if self._task.done():
            return
        try:
            async with asyncio.timeout(_LATE_SECONDS):
                await self._chunks.put(chunk)
        except TimeoutError:
            self._leave_behind("it is too slow")

    async def finish(self) -> bool:
        """Return whether the blob is in place in time."""
        await self.add(None)
        return await super().finish()


class FanoutUpload:
    """One upload to several stores. It raises only errors of the primary."""

    def __init__(self, first: UploadTarget, upload: Upload, replicas: Sequence[_ReplicaUpload]) -> None:
        self._first = first
        self._upload = upload
        self._replicas = replicas
        self.has_lagging_replica = False
        """True if a copy has not kept up, and must be filled later."""

    async def write(self, chunk: Chunk) -> None:
        """Append bytes. Raises what `Upload.write` raises."""
        if not self._replicas:
            await self._upload.write(chunk)
            return
        await asyncio.gather(self._upload.write(chunk), *(replica.add(chunk) for replica in self._replicas))

    async def finish(self) -> list[UploadTarget]:
        """Put the blobs in place, and return their targets: the primary, and the copies that have kept up."""
        _, *kept = await asyncio.gather(self._upload.finish(), *(replica.finish() for replica in self._replicas))
        self.has_lagging_replica = not all(kept)
        return [self._first, *(replica.incoming for replica, has in zip(self._replicas, kept, strict=True) if has)]


@asynccontextmanager
async def open_fanout(targets: Sequence[UploadTarget], size: int, stores: StoreRegistry) -> AsyncIterator[FanoutUpload]:
    """Begin an upload of `size` bytes to the stores; the first is the primary."""
    first, *others = targets
    async with first.store.backend.create(first.name, size) as upload:
        replicas = [_ReplicaUpload(store, size, stores) for store in others]
        try:
            yield FanoutUpload(first, upload, replicas)
        finally:
            # Copies that have finished are not affected.
            await asyncio.gather(*(replica.cancel() for replica in replicas))


async def put_blobs(contents: Mapping[Store, Mapping[str, Chunk]], stores: StoreRegistry) -> set[Store]:
    """Put whole objects in place, in each store under their blob names there; the first store is the primary.

    Return the stores that have all of them: the primary, and the copies that have kept up. Raises what `Backend.put` of
    the primary raises.
    """
    (primary, named), *others = contents.items()
    copies = {store: _ReplicaTask(store, store.backend.put(named), stores) for store, named in others}
    try:
        await primary.backend.put(named)
        return {primary, *[store for store, copy in copies.items() if await copy.finish()]}
    finally:
        # Copies that have finished are not affected.
        await asyncio.gather(*(copy.cancel() for copy in copies.values()))
