"""Uploads that the service makes of its own accord."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.storage import contents
from services.storage.contents import New
from services.storage.names import oid_of
from services.storage.refusals import store_gone
from services.storage.store import Store
from services.storage.stores.places import Place


@asynccontextmanager
async def noted(store: Store, place: Place, *names: str) -> AsyncIterator[None]:
    """Let names be those of uploads of this process; what is under them afterwards, and not committed, is swept.

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
