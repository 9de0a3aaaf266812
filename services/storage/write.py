"""Writing an object: nothing is visible before it is whole, verified and durable."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import Reason, ServiceError
from services.common.rpc.call_fields import note
from services.storage import index, metrics
from services.storage.backend import Upload
from services.storage.models import Object
from services.storage.refusals import object_removed, repository_deleted
from services.storage.room import Announced
from services.storage.store import Store
from services.storage.tally import Tally
from services.storage.undivided import undivided
from services.storage.upload_stream import UploadHeader, UploadStream


async def write_object(store: Store, stream: UploadStream) -> Object:
    """Take a header and the bytes, and return the record of the object that the repository now holds.

    Raises what WriteObject documents; nothing is kept then. An upload that its sender gives up counts as neither.
    """
    try:
        record = await _write(store, stream)
    except ServiceError as error:
        metrics.count_rejected(error.reason)
        raise
    except Exception:
        metrics.count_rejected(Reason.INTERNAL)
        raise
    metrics.UPLOADS_STORED.inc()
    return record


async def _write(store: Store, stream: UploadStream) -> Object:
    header = await stream.header()
    note(repository_id=header.repository_id, oid=header.oid, objects=1)
    await _refuse_removed(store, header)
    await store.traffic.require(header.repository_id)
    committing = False
    try:
        async with store.room.announced(header.size) as announced, store.backend.begin(header.oid) as upload:
            async with aclosing(stream.chunks()) as chunks:
                await _receive(store, header, chunks, upload, announced)
            await upload.flush()
            committing = True
            # Whole and verified: from here on the client's going away changes nothing.
            return await undivided(_commit(store, header, upload))
    except BaseException:
        if committing:
            # The bytes may be in place, and whether the record is there may not be known.
            store.sweep_wanted.set()
        raise


async def _refuse_removed(store: Store, header: UploadHeader) -> None:
    async def work(connection: AsyncConnection) -> Object | None:
        return await index.find(connection, header.repository_id, header.oid)

    record = await store.database.run(work)
    if record is not None and record.removed_at is not None:
        raise object_removed(header.oid, record.removal_reason or "")


async def _receive(
    store: Store, header: UploadHeader, chunks: AsyncIterator[bytes], upload: Upload, announced: Announced
) -> None:
    tally = Tally(header.oid, header.size)
    received = 0
    async for chunk in chunks:
        received += len(chunk)
        note(bytes_in=received)
        store.traffic.count(header.repository_id, bytes_in=len(chunk))
        tally.count(chunk)
        await asyncio.gather(asyncio.to_thread(tally.hash, chunk), upload.write(chunk))
        announced.arrived(len(chunk))
    tally.finish()


async def _commit(store: Store, header: UploadHeader, upload: Upload) -> Object:
    """Put the bytes in place and the record into the index, as one, whatever else happens to the oid meanwhile."""

    async def work(connection: AsyncConnection) -> Object:
        await index.lock(connection, header.oid, into=header.repository_id)
        record = await index.add(connection, header.repository_id, header.oid, header.size)
        if record is None:
            tombstone = await index.find(connection, header.repository_id, header.oid)
            raise object_removed(header.oid, tombstone.removal_reason or "") if tombstone else repository_deleted()
        await upload.publish()
        return record

    async with store.locks.of(header.oid):
        record = await store.database.run(work)
    await upload.settle()
    return record
