"""Reads of an object, or of a part of it."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from services.common.errors import InvalidArgument, OutOfRange, Reason, Unavailable
from services.common.observability.logs import get_logger
from services.common.rpc.log_fields import add_log_fields
from services.storage.backends.base import BytesMissing, StoredBytes
from services.storage.capacity.quota import TrafficQuota
from services.storage.context import StorageContext
from services.storage.errors import object_damaged, object_not_found, object_removed
from services.storage.index.contents import BlobLocation
from services.storage.index.lookups import Located
from services.storage.metrics import OBJECTS_MISSING
from services.storage.objects.damage import report_damage
from services.storage.uploads.checksum import ChecksumVerifier

VERIFIED_SHARES = {"always": 1.0, "sample": 1 / 16, "never": 0.0}
"""The share of whole reads that are verified, by the setting `storage_verify_reads`."""

_PATIENCE_SECONDS = 3.0
"""The timeout for a store to open a blob of an object that another store has as well."""

_log = get_logger(__name__)


def range_length(size: int, offset: int, length: int | None) -> int:
    """Return how many bytes of an object of `size` bytes are read from `offset` on.

    Neither `offset` nor `length` is negative. Raises `OutOfRange`, with the metadata `size`, if `offset` is beyond the
    end.
    """
    if offset > size:
        raise OutOfRange(Reason.OFFSET_OUT_OF_RANGE, f"offset: expected at most {size}, got {offset}", size=str(size))
    return size - offset if length is None else min(length, size - offset)


@dataclass
class OpenObject:
    """An object that is being read: its whole size, and the requested bytes."""

    size: int
    chunks: AsyncIterator[bytes]


@asynccontextmanager
async def open_object(
    context: StorageContext, repository_id: int, oid: str, *, offset: int, length: int | None, is_counted: bool = False
) -> AsyncIterator[OpenObject]:
    """Open an object for reading. Raises what ReadObject documents.

    `is_counted` means that the bytes have been counted as read already. If the blobs are not what the index says, the
    fault is this service's: it is logged, and nothing is deleted. A share of whole reads is verified, see `_verified`.
    """
    if not is_counted:
        await context.quota.check(repository_id)
    try:
        async with _open(context, repository_id, oid) as (size, opened):
            count = range_length(size, offset, length)
            quota = None if is_counted else context.quota
            async with aclosing(_counted(quota, repository_id, opened.stored, offset, count)) as chunks:
                if count == size and is_to_be_verified(context):
                    async with aclosing(_verified(context, oid, size, opened.location, chunks)) as verified:
                        yield OpenObject(size, verified)
                else:
                    yield OpenObject(size, chunks)
    except BytesMissing as error:
        # Raises if the object has just been removed: then nothing is lost.
        await held_object(context, repository_id, oid)
        OBJECTS_MISSING.inc()
        _log.exception("bytes of an object are lost", repository_id=repository_id, oid=oid)
        raise object_damaged(oid) from error


def is_to_be_verified(context: StorageContext) -> bool:
    """Return whether the next whole read is verified, by the share that the setting names."""
    return random.random() < context.verified_share  # noqa: S311 - a sample, no secret


async def _verified(
    context: StorageContext, oid: str, size: int, location: BlobLocation, chunks: AsyncIterator[bytes]
) -> AsyncGenerator[bytes]:
    """Yield the chunks of a whole object, the last one only if all of them have its SHA-256.

    Otherwise report the blob as damaged, and raise `DataLoss`.
    """
    tally = ChecksumVerifier(oid, size)
    last = b""
    async for chunk in chunks:
        tally.count(chunk)
        await tally.hash(chunk)
        if last:
            yield last
        last = chunk
    try:
        tally.finish()
    except InvalidArgument as error:
        await report_damage(context, [location])
        raise object_damaged(oid) from error
    if last:
        yield last


class _Opened(NamedTuple):
    """A blob that is open for reading, and its location."""

    location: BlobLocation
    stored: StoredBytes


@asynccontextmanager
async def _open(context: StorageContext, repository_id: int, oid: str) -> AsyncIterator[tuple[int, _Opened]]:
    held = await held_object(context, repository_id, oid)
    context.reads.note(repository_id, [held])
    async with AsyncExitStack() as stack:
        try:
            opened = await _open_any(context, stack, held)
        except BytesMissing:
            now = await held_object(context, repository_id, oid)
            if now.locations == held.locations:
                raise
            # The blobs have just been replaced.
            opened = await _open_any(context, stack, now)
        yield held.size, opened


async def _open_any(context: StorageContext, stack: AsyncExitStack, held: Located) -> _Opened:
    """Open the blob in the first store that has it. Raises `BytesMissing` if all stores answer, and none has it.

    A blob that is known to be damaged is not opened, because its size may still be right.
    """
    stores = context.stores.of(held.locations)
    missing: list[BlobLocation] = []
    away: Exception | None = None
    for number, (store, name) in enumerate(stores, start=1):
        location = BlobLocation(store.id, name)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS if number < len(stores) else None):
                stored = await stack.enter_async_context(store.backend.open(name))
            _require_size(stored, held.size)
        except BytesMissing:
            missing.append(location)
        except (Unavailable, TimeoutError) as error:
            away = error
        else:
            await report_damage(context, missing)
            return _Opened(location, stored)
    if away is not None:
        raise away
    await report_damage(context, missing)
    raise BytesMissing("no store has them")


def _require_size(stored: StoredBytes, size: int) -> None:
    if stored.size != size:
        raise BytesMissing(f"{stored.size} bytes are there, expected {size}")


async def held_object(context: StorageContext, repository_id: int, oid: str) -> Located:
    """Return an object that the repository holds, with the locations of its blobs.

    Raises `NotFound`, or `FailedPrecondition` (OBJECT_REMOVED, with the reason).
    """
    found = await context.lookups.locate(repository_id, [oid])
    if not found:
        raise object_not_found(oid)
    [located] = found
    if located.is_removed:
        raise object_removed(oid, located.removal_reason or "")
    return located


async def _counted(
    quota: TrafficQuota | None, repository_id: int, stored: StoredBytes, offset: int, length: int
) -> AsyncGenerator[bytes]:
    sent = 0
    async for chunk in stored.chunks(offset, length):
        if quota is not None:
            quota.count(repository_id, bytes_out=len(chunk))
        sent += len(chunk)
        add_log_fields(bytes_out=sent)
        yield chunk
