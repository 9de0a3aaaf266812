"""Writing an object: nothing is visible before it is whole, verified and durable."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import Reason, ServiceError
from services.common.rpc.call_fields import note
from services.storage import contents, index, metrics
from services.storage.backend import Upload
from services.storage.commit import commit
from services.storage.models import Object
from services.storage.names import new_name
from services.storage.refusals import object_removed, upload_given_up
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
    await store.traffic.require(header.repository_id)
    async with (
        store.room.announced(header.size) as announced,
        _noted(store, header) as noted,
        store.backend.begin(noted.name, header.size) as upload,
    ):
        async with aclosing(stream.chunks()) as chunks:
            await _receive(store, header, chunks, upload, announced)
        # Whole and verified: from here on the client's going away changes nothing.
        return await undivided(_keep(store, header, noted, upload))


@dataclass(frozen=True)
class _Noted:
    """An upload that the index knows of."""

    name: str
    replaces: str | None


@asynccontextmanager
async def _noted(store: Store, header: UploadHeader) -> AsyncIterator[_Noted]:
    """Note that bytes come to a new name; what is under it at the end, and not committed, is swept."""
    name = new_name(header.oid)

    async def work(connection: AsyncConnection) -> _Noted:
        record = await index.find(connection, header.repository_id, header.oid)
        if record is not None and record.removed_at is not None:
            raise object_removed(header.oid, record.removal_reason or "")
        await contents.begin(connection, name, writer=store.writer.id)
        return _Noted(name, await contents.name_of(connection, header.oid))

    store.writer.names.add(name)
    try:
        yield await store.database.run(work)
    except BaseException:
        store.sweep_wanted.set()
        raise
    finally:
        store.writer.names.discard(name)


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


async def _keep(store: Store, header: UploadHeader, noted: _Noted, upload: Upload) -> Object:
    """Put the bytes in place, and let the object be held with them."""
    await upload.finish()
    record = await commit(
        store, header.repository_id, header.oid, header.size, name=noted.name, replaces=noted.replaces
    )
    if record is None:
        raise upload_given_up()
    return record
