"""Reading an object, or a part of it."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import OutOfRange, Reason
from services.common.logs import get_logger
from services.common.rpc.call_fields import note
from services.storage import index
from services.storage.backend import BytesMissing, StoredBytes
from services.storage.metrics import OBJECTS_MISSING
from services.storage.models import Object
from services.storage.refusals import object_not_found, object_removed
from services.storage.store import Store

_log = get_logger(__name__)


def range_length(size: int, offset: int, length: int | None) -> int:
    """Return how many bytes of an object of `size` bytes are read from `offset` on; neither is negative.

    Raises `OutOfRange`, with the metadata `size`, where `offset` lies beyond the end.
    """
    if offset > size:
        raise OutOfRange(Reason.OFFSET_OUT_OF_RANGE, f"offset: expected at most {size}, got {offset}", size=str(size))
    return size - offset if length is None else min(length, size - offset)


@dataclass
class OpenObject:
    """An object that is being read: its whole size, and the bytes asked for."""

    size: int
    chunks: AsyncIterator[bytes]


@asynccontextmanager
async def open_object(
    store: Store, repository_id: int, oid: str, *, offset: int, length: int | None
) -> AsyncIterator[OpenObject]:
    """Open an object for reading. Raises what ReadObject documents.

    Bytes that are not there as the index says are an error of ours: it is logged, and nothing is deleted.
    """
    await store.traffic.require(repository_id)
    record = await _held(store, repository_id, oid)
    try:
        async with store.backend.open(oid) as stored:
            _require_size(stored, record.size)
            count = range_length(record.size, offset, length)
            async with aclosing(_counted(store, repository_id, stored, offset, count)) as chunks:
                yield OpenObject(record.size, chunks)
    except BytesMissing as error:
        # Unless the object has been removed in this moment, which this raises for.
        await _held(store, repository_id, oid)
        OBJECTS_MISSING.inc()
        _log.exception("bytes of an object are lost", repository_id=repository_id, oid=oid)
        raise object_not_found(oid) from error


def _require_size(stored: StoredBytes, size: int) -> None:
    if stored.size != size:
        raise BytesMissing(f"{stored.size} bytes are there, expected {size}")


async def _held(store: Store, repository_id: int, oid: str) -> Object:
    async def work(connection: AsyncConnection) -> Object | None:
        return await index.find(connection, repository_id, oid)

    record = await store.database.run(work)
    if record is None:
        raise object_not_found(oid)
    if record.removed_at is not None:
        raise object_removed(oid, record.removal_reason or "")
    return record


async def _counted(
    store: Store, repository_id: int, stored: StoredBytes, offset: int, length: int
) -> AsyncGenerator[bytes]:
    sent = 0
    async for chunk in stored.chunks(offset, length):
        store.traffic.count(repository_id, bytes_out=len(chunk))
        sent += len(chunk)
        note(bytes_out=sent)
        yield chunk
