"""Bringing one object from a store that has it to one that lacks it."""

import asyncio
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.concurrency.uncancellable import run_to_completion
from services.common.errors import InvalidArgument
from services.storage.backends.base import BytesMissing, Upload
from services.storage.blob_names import new_name
from services.storage.context import StorageContext
from services.storage.index import contents, objects
from services.storage.index.contents import BlobLocation, UploadedBlob
from services.storage.index.store_table import Held
from services.storage.metrics import count_copied
from services.storage.objects.damage import report_damage
from services.storage.replication.rate_limit import RateLimiter
from services.storage.stores.registry import Store
from services.storage.uploads.checksum import ChecksumVerifier
from services.storage.uploads.pending import pending_blobs


class _DamagedSource(Exception):
    """A store does not have the object's bytes, whatever the index says."""


async def bring(context: StorageContext, held: Held, store: Store, *, first: int | None, pace: RateLimiter) -> bool:
    """Bring an object to a store, verified by size and hash; tell whether it is there now.

    `first` is the store that is read before others. Where one has lost the bytes, or damaged them, that is noted, and
    the next is read. Raises `ServiceError` and OSError where a store, or the database, does not do its part.
    """
    names = await context.database.run(lambda connection: contents.names_of(connection, held.oid))
    replaces = names.pop(store.id, None)
    sources = context.stores.of(BlobLocation(*item) for item in names.items())
    for source, name in sorted(sources, key=lambda found: found[0].id != first):
        try:
            await _copy(context, held, source, name, store, replaces, pace)
        except _DamagedSource:
            # Whoever wants to forget the store is told that it alone has what there is.
            await report_damage(context, [BlobLocation(source.id, name)], if_elsewhere=True)
        else:
            return True
    return False


async def _copy(
    context: StorageContext,
    held: Held,
    source: Store,
    source_name: str,
    store: Store,
    replaces: str | None,
    pace: RateLimiter,
) -> None:
    name = new_name(held.oid)
    tally = ChecksumVerifier(held.oid, held.size)
    async with pending_blobs(context, store, name), store.backend.create(name, held.size) as upload:
        try:
            async with source.backend.open(source_name) as stored:
                if stored.size != held.size:
                    raise _DamagedSource
                async for chunk in stored.chunks(0, held.size):
                    await _add(tally, upload, chunk)
                    await pace.acquire(len(chunk))
            tally.finish()
        except (BytesMissing, InvalidArgument) as error:
            raise _DamagedSource from error
        await run_to_completion(_finish(context, held, upload, store, name, replaces))


async def _add(tally: ChecksumVerifier, upload: Upload, chunk: bytes) -> None:
    tally.count(chunk)
    await asyncio.gather(tally.hash(chunk), upload.write(chunk))


async def _finish(
    context: StorageContext, held: Held, upload: Upload, store: Store, name: str, replaces: str | None
) -> None:
    await upload.finish()
    if await context.database.run(partial(_commit, held.oid, store, name, replaces)):
        count_copied(store.name, held.size)


async def _commit(oid: str, store: Store, name: str, replaces: str | None, connection: AsyncConnection) -> bool:
    """Let the object be there; tell whether it is by these bytes."""
    await objects.lock(connection, [oid], stores=[store.id])
    if not await objects.is_held(connection, oid):
        # Removed meanwhile, everywhere: nothing would ever let go of these bytes.
        await contents.give_up(connection, [name])
        return False
    arrived = UploadedBlob(store.id, oid, name, replaces, store.replaced_seconds)
    return await contents.commit(connection, [arrived]) == [name]
