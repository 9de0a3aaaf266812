"""The backend that the URL of an object store means."""

import asyncio

from services.storage.object_store import azure, gcs, s3
from services.storage.object_store.allocator import give_back_freed_buffers
from services.storage.object_store.backend import ObjectStoreBackend
from services.storage.object_store.bucket import Bucket
from services.storage.object_store.location import AzureLocation, GcsLocation, Location, parse


async def open_object_store(url: str) -> ObjectStoreBackend:
    """Return the backend. Raises ValueError for a URL that means none, or where no credentials are found."""
    location = parse(url)
    give_back_freed_buffers()
    # Files are read, and the host may be asked for its role.
    return ObjectStoreBackend(await asyncio.to_thread(_open, location), location.prefix)


def _open(location: Location) -> Bucket:
    match location:
        case GcsLocation():
            return gcs.open_bucket(location)
        case AzureLocation():
            return azure.open_bucket(location)
    return s3.open_bucket(location)
