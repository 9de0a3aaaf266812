"""Bytes noted in the index before they come: what is under their names afterwards, and not committed, is swept."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from services.common.concurrency.uncancellable import run_to_completion
from services.common.errors import ServiceError
from services.storage.blob_names import new_name, oid_of
from services.storage.context import Store
from services.storage.errors import object_removed, store_gone
from services.storage.index import contents
from services.storage.index.contents import New
from services.storage.stores.registry import Place
from services.storage.uploads.fanout import Incoming
from services.storage.uploads.stream import UploadHeader


@asynccontextmanager
async def noted_uploads(
    store: Store, headers: Sequence[UploadHeader]
) -> AsyncIterator[list[list[Incoming] | ServiceError]]:
    """Note that bytes of uploads come to new names, in the primary and its copies; yield where each one's come to.

    For one that is refused it is the error: `FailedPrecondition` (OBJECT_REMOVED) or `Unavailable`.
    """
    places = (store.places.primary, *store.places.mirrors())
    names = [{place: new_name(header.oid) for place in places} for header in headers]
    all_names = {name for each in names for name in each.values()}
    store.writer.names.update(all_names)
    try:
        # What is swept at the end has to be noted by then, or never.
        yield await run_to_completion(
            asyncio.gather(*(_begin(store, *each) for each in zip(headers, names, strict=True)))
        )
    except BaseException:
        store.sweep_wanted.set()
        raise
    finally:
        store.writer.names.difference_update(all_names)


async def _begin(store: Store, header: UploadHeader, names: dict[Place, str]) -> list[Incoming] | ServiceError:
    new = [New(header.repository_id, place.id, header.oid, name) for place, name in names.items()]
    try:
        first, *_ = begun = await store.registrar.begin(new)
    except ServiceError as error:
        # It may have been noted all the same.
        store.sweep_wanted.set()
        return error
    if first.removal_reason is not None:
        return object_removed(header.oid, first.removal_reason)
    if not first.is_known:
        return store_gone()
    return [
        Incoming(place, name, one.replaces)
        for (place, name), one in zip(names.items(), begun, strict=True)
        if one.is_known
    ]


@asynccontextmanager
async def noted(store: Store, place: Place, *names: str) -> AsyncIterator[None]:
    """Note that bytes which the service brings of its own accord come to these names in a store.

    Raises `Unavailable` where the store was forgotten.
    """
    new = [New(None, place.id, oid_of(name), name) for name in names]
    store.writer.names.update(names)
    try:
        begun = await store.database.fetch(contents.beginning(new, writer=store.writer.id))
        if not all(is_known for is_known, *_ in begun):
            raise store_gone()
        yield
    finally:
        store.writer.names.difference_update(names)
        store.sweep_wanted.set()
