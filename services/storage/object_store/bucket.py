"""A bucket, or a container: how its objects are reached, and how what uploads leave there is removed."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import obstore
from obstore.store import ObjectStore

from services.storage.object_store.deadlines import ANSWER_SECONDS
from services.storage.object_store.errors import asked


@dataclass(frozen=True)
class Bucket:
    """One, with its clients. `discard` removes what is under a key, in place or on its way."""

    uploads: ObjectStore
    requests: ObjectStore
    discard: Callable[[str], Awaitable[None]]


async def delete(store: ObjectStore, key: str) -> None:
    """Delete an object, which need not be there."""
    async with asked("delete an object", ANSWER_SECONDS):
        with suppress(FileNotFoundError):
            await obstore.delete_async(store, key)
