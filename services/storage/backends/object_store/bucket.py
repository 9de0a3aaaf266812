"""A bucket, or a container: how its objects are reached, and how what uploads leave there is removed."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

import obstore
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

from services.storage.backends.object_store.deadlines import ANSWER_SECONDS
from services.storage.backends.object_store.errors import asked
from services.storage.backends.object_store.signed_puts import SignedPuts


def _no_end() -> None:
    """Nothing is known of an end."""


@dataclass(frozen=True)
class Bucket:
    """One, with its clients. `discard` removes what is under a key, in place or on its way.

    `puts` signs uploads, where the store is one that does. `credentials_end` tells when the credentials end that
    `requests` signs with, and `renewed_credentials_end` the same of `puts`, in the calling thread, as it may renew
    them first; both where they end and it is known.
    """

    uploads: ObjectStore
    requests: S3Store | GCSStore | AzureStore
    discard: Callable[[str], Awaitable[object]]
    puts: SignedPuts | None = None
    credentials_end: Callable[[], datetime | None] = _no_end
    renewed_credentials_end: Callable[[], datetime | None] = _no_end


async def delete(store: ObjectStore, key: str) -> bool:
    """Delete an object, and tell whether there may have been one: S3 does not say."""
    async with asked("delete an object", ANSWER_SECONDS):
        try:
            await obstore.delete_async(store, key)
        except FileNotFoundError:
            return False
    return True
