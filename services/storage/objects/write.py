"""Writing an object that comes in pieces: nothing is visible before it is whole, verified and durable."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from services.common.concurrency.uncancellable import run_to_completion
from services.common.errors import ServiceError
from services.common.rpc.log_fields import add_log_fields
from services.storage import metrics
from services.storage.backends.base import Chunk
from services.storage.capacity.space import Announced
from services.storage.context import Store
from services.storage.index.objects import Record
from services.storage.uploads.checksum import Tally
from services.storage.uploads.commit import keep
from services.storage.uploads.fanout import Uploads, begun
from services.storage.uploads.pending import noted_uploads
from services.storage.uploads.stream import UploadHeader, UploadStream


async def write_object(store: Store, stream: UploadStream) -> Record:
    """Take a header and the bytes, and return the record of the object that the repository now holds.

    Raises what WriteObject documents; nothing is kept then.
    """
    with metrics.decided():
        return await _write(store, stream)


async def _write(store: Store, stream: UploadStream) -> Record:
    header = await stream.header()
    add_log_fields(repository_id=header.repository_id, oid=header.oid, objects=1)
    await store.traffic.require(header.repository_id)
    async with store.room.announced(header.size) as announced, noted_uploads(store, [header]) as [incoming]:
        if isinstance(incoming, ServiceError):
            raise incoming
        async with begun(incoming, header.size, store.places) as uploads:
            async with aclosing(stream.chunks()) as chunks:
                await _receive(store, header, chunks, uploads, announced)
            # Whole and verified: from here on the client's going away changes nothing.
            record = await run_to_completion(_keep(store, header, uploads))
    if uploads.has_left_behind:
        store.sweep_wanted.set()
        store.copy_wanted.set()
    return record


async def _receive(
    store: Store, header: UploadHeader, chunks: AsyncIterator[Chunk], uploads: Uploads, announced: Announced
) -> None:
    tally = Tally(header.oid, header.size)
    received = 0
    async for chunk in chunks:
        received += len(chunk)
        add_log_fields(bytes_in=received)
        store.traffic.count(header.repository_id, bytes_in=len(chunk))
        tally.count(chunk)
        await announced.expect(len(chunk))
        await asyncio.gather(tally.hash(chunk), uploads.write(chunk))
        announced.arrived(len(chunk))
        # Many uploads wait for bytes at once; none keeps those that it is done with.
        del chunk
    tally.finish()


async def _keep(store: Store, header: UploadHeader, uploads: Uploads) -> Record:
    """Put the bytes in place, and let the object be held with them."""
    return await keep(store, header, await uploads.finish())
