"""Writing an object: nothing is visible before it is whole, verified and durable."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

from services.common.errors import Reason, ServiceError
from services.common.rpc.call_fields import note
from services.common.undivided import in_thread, undivided
from services.storage import metrics
from services.storage.backend import Chunk
from services.storage.commit import commit
from services.storage.contents import New
from services.storage.incoming import Incoming, Uploads, begun
from services.storage.index import Record
from services.storage.names import new_name
from services.storage.refusals import object_removed, store_gone, upload_given_up
from services.storage.room import Announced
from services.storage.store import Store
from services.storage.stores.places import Place
from services.storage.tally import Tally
from services.storage.upload_stream import UploadHeader, UploadSource

# In less time than the way to a thread and back takes.
_HASHED_HERE = 64 * 1024


async def write_object(store: Store, source: UploadSource) -> Record:
    """Take a header and the bytes, and return the record of the object that the repository now holds.

    Raises what WriteObject documents; nothing is kept then. An upload that its sender gives up counts as neither.
    """
    try:
        record = await _write(store, source)
    except ServiceError as error:
        metrics.count_rejected(error.reason)
        raise
    except Exception:
        metrics.count_rejected(Reason.INTERNAL)
        raise
    metrics.UPLOADS_STORED.inc()
    return record


async def _write(store: Store, source: UploadSource) -> Record:
    header = await source.header()
    note(repository_id=header.repository_id, oid=header.oid, objects=1)
    await store.traffic.require(header.repository_id)
    async with (
        store.room.announced(header.size) as announced,
        _noted(store, header) as incoming,
        begun(incoming, header.size, store.places) as uploads,
    ):
        async with aclosing(source.chunks()) as chunks:
            await _receive(store, header, chunks, uploads, announced)
        # Whole and verified: from here on the client's going away changes nothing.
        record = await undivided(_keep(store, header, uploads))
    if uploads.has_left_behind:
        store.sweep_wanted.set()
        store.copy_wanted.set()
    return record


@asynccontextmanager
async def _noted(store: Store, header: UploadHeader) -> AsyncIterator[list[Incoming]]:
    """Note that bytes come to new names, in the primary and its copies; what is not committed at the end is swept."""
    new = {place: new_name(header.oid) for place in (store.places.primary, *store.places.mirrors())}
    store.writer.names.update(new.values())
    try:
        # What is swept at the end has to be noted by then, or never.
        yield await undivided(_begin(store, header, new))
    except BaseException:
        store.sweep_wanted.set()
        raise
    finally:
        store.writer.names.difference_update(new.values())


async def _begin(store: Store, header: UploadHeader, new: Mapping[Place, str]) -> list[Incoming]:
    names = [New(header.repository_id, place.id, header.oid, name) for place, name in new.items()]
    first, *_ = begun = await store.registrar.begin(names)
    if first.removal_reason is not None:
        raise object_removed(header.oid, first.removal_reason)
    if not first.is_known:
        raise store_gone()
    return [
        Incoming(place, name, one.replaces)
        for (place, name), one in zip(new.items(), begun, strict=True)
        if one.is_known
    ]


async def _receive(
    store: Store, header: UploadHeader, chunks: AsyncIterator[Chunk], uploads: Uploads, announced: Announced
) -> None:
    tally = Tally(header.oid, header.size)
    received = 0
    async for chunk in chunks:
        received += len(chunk)
        note(bytes_in=received)
        store.traffic.count(header.repository_id, bytes_in=len(chunk))
        tally.count(chunk)
        if len(chunk) <= _HASHED_HERE:
            tally.hash(chunk)
            await uploads.write(chunk)
        else:
            await asyncio.gather(in_thread(tally.hash, chunk), uploads.write(chunk))
        announced.arrived(len(chunk))
    tally.finish()


async def _keep(store: Store, header: UploadHeader, uploads: Uploads) -> Record:
    """Put the bytes in place, and let the object be held with them."""
    arrived = await uploads.finish()
    record = await commit(store, header.repository_id, header.oid, header.size, arrived)
    if record is None:
        # Who gave it up may have removed what was there before these bytes were.
        for one in arrived:
            await one.place.backend.discard(one.name)
        raise upload_given_up()
    return record
