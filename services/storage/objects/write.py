"""Upload of an object in a stream: the object becomes visible only once it is whole, verified and durable."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from services.common.concurrency.uncancellable import run_to_completion
from services.common.errors import ServiceError
from services.common.rpc.log_fields import add_log_fields
from services.storage import metrics
from services.storage.backends.base import Chunk
from services.storage.capacity.reservations import Room
from services.storage.capacity.space import Reservation
from services.storage.context import StorageContext
from services.storage.index.objects import Record
from services.storage.uploads.checksum import ChecksumVerifier
from services.storage.uploads.commit import commit_own
from services.storage.uploads.fanout import FanoutUpload, open_fanout
from services.storage.uploads.pending import pending_uploads
from services.storage.uploads.stream import UploadHeader, UploadStream


async def write_object(context: StorageContext, stream: UploadStream) -> Record:
    """Receive a header and the bytes, and return the record of the object that the repository now holds.

    Raises what WriteObject documents; the object is then not stored.
    """
    with metrics.decided():
        header = await stream.header()
        add_log_fields(repository_id=header.repository_id, oid=header.oid, objects=1)
        await context.quota.check(header.repository_id)
        return await _write(context, header, stream.chunks(), is_counted=False)


async def write_chunks(context: StorageContext, header: UploadHeader, chunks: AsyncGenerator[Chunk]) -> Record:
    """Write an object whose bytes this service has, and has counted; return as `write_object`, and raise its errors."""
    with metrics.decided():
        return await _write(context, header, chunks, is_counted=True)


async def _write(
    context: StorageContext, header: UploadHeader, chunks: AsyncGenerator[Chunk], *, is_counted: bool
) -> Record:
    async with (
        context.reservations.admitted(header.repository_id, header.oid, header.size, user_id=header.user_id) as room,
        context.space.reserve(header.size) as reservation,
        pending_uploads(context, [header]) as [targets],
    ):
        if isinstance(targets, ServiceError):
            raise targets
        async with open_fanout(targets, header.size, context.stores) as uploads:
            async with aclosing(chunks):
                await _receive(context, header, chunks, uploads, reservation, is_counted=is_counted)
            # The object is whole and verified: a disconnect of the client must not cancel the commit any more.
            record = await run_to_completion(_keep(context, header, uploads, room))
    if uploads.has_lagging_replica:
        context.sweep_wanted.set()
        context.copy_wanted.set()
    return record


async def _receive(
    context: StorageContext,
    header: UploadHeader,
    chunks: AsyncIterator[Chunk],
    uploads: FanoutUpload,
    reservation: Reservation,
    *,
    is_counted: bool,
) -> None:
    tally = ChecksumVerifier(header.oid, header.size)
    received = 0
    async for chunk in chunks:
        received += len(chunk)
        if not is_counted:
            add_log_fields(bytes_in=received)
            context.quota.count(header.repository_id, bytes_in=len(chunk))
        tally.count(chunk)
        await reservation.expect(len(chunk))
        await asyncio.gather(tally.hash(chunk), uploads.write(chunk))
        reservation.written(len(chunk))
        # Free the chunk before waiting for the next, because many uploads wait at the same time.
        del chunk
    tally.finish()


async def _keep(context: StorageContext, header: UploadHeader, uploads: FanoutUpload, room: Room) -> Record:
    """Put the blobs in place, and commit the object."""
    targets = await uploads.finish()
    await room.require()
    return await commit_own(context, header, targets)
