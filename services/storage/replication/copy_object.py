"""Copying of one object from a store that has it to a store that lacks it."""

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
    """A store does not have the object's bytes, although the index says so."""


async def bring(
    context: StorageContext, held: Held, store: Store, *, first: int | None, rate_limiter: RateLimiter
) -> bool:
    """Copy an object to a store, verified by size and hash; return False if no other store has it undamaged.

    `first` is the id of the store that is read before others. A damaged source is reported, and the next source is
    read. Raises `ServiceError` and OSError if a store or the database fails.
    """
    names = await context.database.run(lambda connection: contents.names_of(connection, held.oid))
    replaces = names.pop(store.id, None)
    sources = context.stores.of(BlobLocation(*item) for item in names.items())
    for source, name in sorted(sources, key=lambda found: found[0].id != first):
        try:
            await _copy(context, held, source, name, store, replaces, rate_limiter)
        except _DamagedSource:
            # Not marked if no other store has the object: an operator who deletes the source is told that it alone has
            # what is left of the object.
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
    rate_limiter: RateLimiter,
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
                    await rate_limiter.acquire(len(chunk))
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
    """Commit the copied blob; return whether it is now the object's blob in the store."""
    await objects.lock(connection, [oid], stores=[store.id])
    if not await objects.is_kept(connection, oid):
        # No repository needs the object any more: nothing would ever discard this blob.
        await contents.give_up(connection, [name])
        return False
    arrived = UploadedBlob(store.id, oid, name, replaces, store.replaced_seconds)
    return await contents.commit(connection, [arrived]) == [name]
