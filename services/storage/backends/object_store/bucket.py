"""A bucket or container: access to its objects, and removal of what uploads leave there."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

import obstore
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

from services.storage.backends.object_store.deadlines import ANSWER_SECONDS
from services.storage.backends.object_store.errors import asked
from services.storage.backends.object_store.signed_puts import SignedPuts


def _no_end() -> None:
    """Return None: no expiry of the credentials is known."""


@dataclass(frozen=True)
class Bucket:
    """A bucket with its clients. `discard` removes everything under a key, in place or still being uploaded.

    `puts` signs uploads; None if the store cannot. `credentials_end` returns the expiry of the credentials with which
    `requests` signs. `renewed_credentials_end` returns the expiry of those of `puts`, and blocks because it may renew
    them first. Both return None if the credentials do not expire, or their expiry is unknown.
    """

    uploads: ObjectStore
    requests: S3Store | GCSStore | AzureStore
    discard: Callable[[str], Awaitable[object]]
    puts: SignedPuts | None = None
    credentials_end: Callable[[], datetime | None] = _no_end
    renewed_credentials_end: Callable[[], datetime | None] = _no_end


async def delete(store: ObjectStore, key: str) -> bool:
    """Delete an object, and return whether it may have existed: S3 does not report that."""
    async with asked("delete an object", ANSWER_SECONDS):
        try:
            await obstore.delete_async(store, key)
        except FileNotFoundError:
            return False
    return True
