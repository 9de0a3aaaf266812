"""Bytes noted in the index before they come: what is under their names afterwards, and not committed, is swept."""

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
    context: StorageContext, headers: Sequence[UploadHeader]
) -> AsyncIterator[list[list[UploadTarget] | ServiceError]]:
    """Note that bytes of uploads come to new names, in the primary and its copies; yield where each one's come to.

    For one that is refused it is the error: `FailedPrecondition` (OBJECT_REMOVED) or `Unavailable`.
    """
    stores = (context.stores.primary, *context.stores.replicas())
    names = [{store: new_name(header.oid) for store in stores} for header in headers]
    all_names = {name for each in names for name in each.values()}
    context.writer_lease.names.update(all_names)
    try:
        # What is swept at the end has to be noted by then, or never.
        yield await run_to_completion(
            asyncio.gather(*(_begin(context, *each) for each in zip(headers, names, strict=True)))
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
        # It may have been noted all the same.
        context.sweep_wanted.set()
        return error
    if first.removal_reason is not None:
        return object_removed(header.oid, first.removal_reason)
    if not first.is_known:
        return store_gone()
    return [
        UploadTarget(store, name, one.replaces)
        for (store, name), one in zip(names.items(), results, strict=True)
        if one.is_known
    ]


@asynccontextmanager
async def pending_blobs(context: StorageContext, store: Store, *names: str) -> AsyncIterator[None]:
    """Note that bytes which the service brings of its own accord come to these names in a store.

    Raises `Unavailable` where the store was forgotten.
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
