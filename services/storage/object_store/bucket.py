"""A bucket, or a container: how its objects are reached, and how what uploads leave there is removed."""

from collections.abc import Awaitable, Callable
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
    discard: Callable[[str], Awaitable[object]]


async def delete(store: ObjectStore, key: str) -> bool:
    """Delete an object, and tell whether there may have been one: S3 does not say."""
    async with asked("delete an object", ANSWER_SECONDS):
        try:
            await obstore.delete_async(store, key)
        except FileNotFoundError:
            return False
    return True
