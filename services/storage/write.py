"""Writing an object: nothing is visible before it is whole, verified and durable."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

from services.common.errors import Reason, ServiceError
from services.common.rpc.call_fields import note
from services.common.undivided import undivided
from services.storage import metrics
from services.storage.commit import commit
from services.storage.contents import Placed
from services.storage.incoming import Incoming, Uploads, begun
from services.storage.index import Record
from services.storage.names import new_name
from services.storage.refusals import store_gone, upload_given_up
from services.storage.registrar import NewUpload
from services.storage.room import Announced
from services.storage.store import Store
from services.storage.stores.places import Place
from services.storage.tally import Tally
from services.storage.upload_stream import UploadHeader, UploadStream


async def write_object(store: Store, stream: UploadStream) -> Record:
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


async def _write(store: Store, stream: UploadStream) -> Record:
    header = await stream.header()
    note(repository_id=header.repository_id, oid=header.oid, objects=1)
    await store.traffic.require(header.repository_id)
    async with (
        store.room.announced(header.size) as announced,
        _noted(store, header) as incoming,
        begun(incoming, header.size, store.places) as uploads,
    ):
        async with aclosing(stream.chunks()) as chunks:
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
    first, *_ = names = [Placed(place.id, name) for place, name in new.items()]
    begun = await store.registrar.begin(NewUpload(header.repository_id, header.oid, names))
    if first.store_id not in begun.store_ids:
        raise store_gone()
    return [
        Incoming(place, name, begun.before.get(place.id)) for place, name in new.items() if place.id in begun.store_ids
    ]


async def _receive(
    store: Store, header: UploadHeader, chunks: AsyncIterator[bytes], uploads: Uploads, announced: Announced
) -> None:
    tally = Tally(header.oid, header.size)
    received = 0
    async for chunk in chunks:
        received += len(chunk)
        note(bytes_in=received)
        store.traffic.count(header.repository_id, bytes_in=len(chunk))
        tally.count(chunk)
        await asyncio.gather(asyncio.to_thread(tally.hash, chunk), uploads.write(chunk))
        announced.arrived(len(chunk))
    tally.finish()


async def _keep(store: Store, header: UploadHeader, uploads: Uploads) -> Record:
    """Put the bytes in place, and let the object be held with them."""
    record = await commit(store, header.repository_id, header.oid, header.size, await uploads.finish())
    if record is None:
        raise upload_given_up()
    return record
