"""Pending uploads.

A blob name is recorded before its first byte is written, so the sweeper can find what a crash leaves behind.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from services.common.concurrency.uncancellable import run_to_completion
from services.common.errors import ServiceError
from services.storage.blob_names import new_name, oid_of
from services.storage.context import StorageContext
from services.storage.errors import object_removed, store_gone
from services.storage.index import contents
from services.storage.index.contents import PendingBlob
from services.storage.stores.registry import Store
from services.storage.uploads.fanout import UploadTarget
from services.storage.uploads.stream import UploadHeader


@asynccontextmanager
async def pending_uploads(
    context: StorageContext, headers: Sequence[UploadHeader], *, with_replicas: bool = True
) -> AsyncIterator[list[list[UploadTarget] | ServiceError]]:
    """Record new blob names for uploads, in the primary and its copies, as pending; yield the targets of each upload.

    Without `with_replicas`, only in the primary. A refused upload yields its error instead: `FailedPrecondition`
    (OBJECT_REMOVED) or `Unavailable`.
    """
    stores = (context.stores.primary, *(context.stores.replicas() if with_replicas else ()))
    names = [{store: new_name(header.oid) for store in stores} for header in headers]
    all_names = {name for by_store in names for name in by_store.values()}
    context.writer_lease.names.update(all_names)
    try:
        # To completion, because the sweep after this context would miss a name that is recorded later.
        yield await run_to_completion(
            asyncio.gather(
                *(_begin(context, header, by_store) for header, by_store in zip(headers, names, strict=True))
            )
        )
    except BaseException:
        context.sweep_wanted.set()
        raise
    finally:
        context.writer_lease.names.difference_update(all_names)


async def _begin(
    context: StorageContext, header: UploadHeader, names: dict[Store, str]
) -> list[UploadTarget] | ServiceError:
    new = [PendingBlob(header.repository_id, store.id, header.oid, name) for store, name in names.items()]
    try:
        first, *_ = results = await context.registrar.begin(new)
    except ServiceError as error:
        # The names may have been recorded all the same.
        context.sweep_wanted.set()
        return error
    if first.removal_reason is not None:
        return object_removed(header.oid, first.removal_reason)
    if not first.is_known:
        return store_gone()
    return [
        UploadTarget(store, name, result.replaces)
        for (store, name), result in zip(names.items(), results, strict=True)
        if result.is_known
    ]


@asynccontextmanager
async def pending_blobs(context: StorageContext, store: Store, *names: str) -> AsyncIterator[None]:
    """Record blob names in a store as pending, for blobs that the service itself writes.

    Raises `Unavailable` if the store was deleted.
    """
    new = [PendingBlob(None, store.id, oid_of(name), name) for name in names]
    context.writer_lease.names.update(names)
    try:
        results = await context.database.fetch(contents.begin_statement(new, writer=context.writer_lease.id))
        if not all(is_known for is_known, *_ in results):
            raise store_gone()
        yield
    finally:
        context.writer_lease.names.difference_update(names)
        context.sweep_wanted.set()
