"""Reading an object, or a part of it."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
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
    try:
        async with _open(store, repository_id, oid) as (record, stored):
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


@asynccontextmanager
async def _open(store: Store, repository_id: int, oid: str) -> AsyncIterator[tuple[Object, StoredBytes]]:
    record, name = await _held(store, repository_id, oid)
    async with AsyncExitStack() as stack:
        try:
            stored = await stack.enter_async_context(store.backend.open(_required(name)))
        except BytesMissing:
            record, now = await _held(store, repository_id, oid)
            if now == name:
                raise
            # Others have taken their place in this moment.
            stored = await stack.enter_async_context(store.backend.open(_required(now)))
        yield record, stored


def _required(name: str) -> str:
    if not name:
        raise BytesMissing("the index has no name for them")
    return name


def _require_size(stored: StoredBytes, size: int) -> None:
    if stored.size != size:
        raise BytesMissing(f"{stored.size} bytes are there, expected {size}")


async def _held(store: Store, repository_id: int, oid: str) -> tuple[Object, str]:
    async def work(connection: AsyncConnection) -> list[tuple[Object, str]]:
        return await index.locate(connection, repository_id, [oid])

    found = await store.database.run(work)
    if not found:
        raise object_not_found(oid)
    [(record, name)] = found
    if record.removed_at is not None:
        raise object_removed(oid, record.removal_reason or "")
    return record, name


async def _counted(
    store: Store, repository_id: int, stored: StoredBytes, offset: int, length: int
) -> AsyncGenerator[bytes]:
    sent = 0
    async for chunk in stored.chunks(offset, length):
        store.traffic.count(repository_id, bytes_out=len(chunk))
        sent += len(chunk)
        note(bytes_out=sent)
        yield chunk
