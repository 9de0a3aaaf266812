"""Partial uploads: what is kept of them, and their completion from the parts."""

import asyncio
import time
from collections.abc import AsyncGenerator
from datetime import datetime
from functools import partial
from typing import NamedTuple

from services.common.errors import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Reason,
    ServiceError,
    Unavailable,
    Unimplemented,
)
from services.common.observability.logs import get_logger
from services.storage import metrics
from services.storage.backends.base import BytesMissing, Chunk
from services.storage.context import StorageContext
from services.storage.errors import object_removed
from services.storage.index.partial_uploads import Found, Part, PartialKey, find_statement, in_progress
from services.storage.objects.write import write_chunks
from services.storage.uploads.lease import PartialUploadLease
from services.storage.uploads.stream import UploadHeader

_MAX_WAIT_SECONDS = 20.0
"""A client gives up when it is not answered for 30 s (client-19)."""

_LOOK_SECONDS = 0.1

_log = get_logger(__name__)


class Kept(NamedTuple):
    """The kept bytes of an upload, and their expiry; the size and None for an object that is held."""

    offset: int
    expires_at: datetime | None = None


def require_enabled(context: StorageContext) -> None:
    """Raise `Unimplemented` if partial uploads are switched off."""
    if not context.partial_uploads_kept:
        raise Unimplemented(Reason.UNIMPLEMENTED, "partial uploads are switched off")


async def is_held(context: StorageContext, key: PartialKey) -> bool:
    """Return whether the repository holds the object, undamaged. Raises `FailedPrecondition` (OBJECT_REMOVED)."""
    found = await context.lookups.locate(key.repository_id, [key.oid])
    if not found or found[0].is_collected:
        return False
    if found[0].is_removed:
        raise object_removed(key.oid, found[0].removal_reason or "")
    return bool(found[0].locations) and found[0].size == key.size


async def find_partial_upload(context: StorageContext, key: PartialKey) -> Kept:
    """Return what is kept of an upload, after completing it if all bytes are. Raises what GetPartialUpload documents.

    An upload that a call adds to is waited for, because a client that asks has lost its connection, and the call is
    about to keep the last bytes that have arrived.
    """
    require_enabled(context)
    deadline = time.monotonic() + _MAX_WAIT_SECONDS
    while True:
        if await is_held(context, key):
            return Kept(key.size)
        rows = await context.database.fetch(find_statement(key))
        found = Found(*rows[0]) if rows else None
        received = 0 if found is None else found.received
        if found is None or not found.is_held:
            if received < key.size:
                return Kept(received, found and found.expires_at)
            try:
                await complete(context, key, seconds=deadline - time.monotonic())
            except InvalidArgument as error:
                # The parts are gone with it.
                _log.warning("the bytes of a partial upload are not the object", oid=key.oid, message=error.message)
                return Kept(0)
            except ServiceError as error:
                if error.reason not in (Reason.UPLOAD_IN_PROGRESS, Reason.OFFSET_MISMATCH):
                    raise
            else:
                return Kept(key.size)
        if time.monotonic() >= deadline:
            raise in_progress()
        await asyncio.sleep(_LOOK_SECONDS)


async def complete(context: StorageContext, key: PartialKey, *, seconds: float | None = None) -> None:
    """Write the object from the parts of an upload that has all bytes, which goes on if the caller stops waiting.

    Raises `Aborted` (UPLOAD_IN_PROGRESS) if that takes longer than `seconds`, and the errors of WriteObject. Parts that
    are not the object, or that will never be held, are deleted.
    """
    task = context.assemblies.start(key, partial(_assemble, context, key))
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        raise in_progress()
    task.result()


async def _assemble(context: StorageContext, key: PartialKey) -> None:
    async with PartialUploadLease.take(context, key, offset=key.size) as lease:
        lease.is_busy = True
        header = UploadHeader(key.repository_id, key.oid, key.size, key.user_id or None)
        try:
            # Their bytes were counted as they arrived.
            await write_chunks(context, header, _bytes_of(context, await lease.parts()))
        except (InvalidArgument, FailedPrecondition, NotFound):
            await lease.discard()
            raise
        except BytesMissing as error:
            await lease.discard()
            _log.error("bytes of a partial upload are lost", oid=key.oid, error=str(error))
            raise Unavailable(Reason.UNAVAILABLE, "bytes of the partial upload are lost; it begins anew") from error
        await lease.discard()
        metrics.ASSEMBLED_UPLOADS.inc()


async def _bytes_of(context: StorageContext, parts: list[Part]) -> AsyncGenerator[Chunk]:
    for (store_id, name), size in parts:
        store = context.stores.get(store_id)
        if store is None:
            raise BytesMissing(f"the store {store_id} of a part is gone")
        async with store.backend.open(name) as stored:
            if stored.size != size:
                raise BytesMissing(f"{name}: {stored.size} bytes are there, expected {size}")
            async for chunk in stored.chunks(0, size):
                yield chunk
