"""Opening of the backend that the URL of an object store denotes."""

import asyncio
import ctypes
from dataclasses import replace

from services.storage.backends.object_store import azure, gcs, s3
from services.storage.backends.object_store.backend import ObjectStoreBackend
from services.storage.backends.object_store.bucket import Bucket
from services.storage.backends.object_store.location import AzureLocation, GcsLocation, Location, parse, parse_endpoint
from services.storage.backends.object_store.signer import UrlSigner
from services.storage.backends.signing import Signing

# From <malloc.h>; a number of glibc's interface, which does not change.
_M_MMAP_THRESHOLD = -3
_THRESHOLD_BYTES = 128 * 1024


async def open_object_store(url: str, public_endpoint: str | None = None) -> ObjectStoreBackend:
    """Return the backend of a URL.

    The URLs that it signs for clients begin with `public_endpoint`, or else with the public endpoint of the URL, or
    else with the endpoint of the URL. Raises ValueError for a URL that denotes no object store, and if no credentials
    are found.
    """
    bucket, location = await open_bucket(url)
    inside = outside = UrlSigner(bucket, location.prefix)
    if public_endpoint is not None:
        public_endpoint = parse_endpoint("storage_public_endpoint", public_endpoint)
    public_endpoint = public_endpoint or location.public_endpoint
    if public_endpoint is not None:
        public = replace(location, endpoint=public_endpoint)
        outside = UrlSigner(await asyncio.to_thread(_open, public), location.prefix)
    signing = Signing(
        outside=outside,
        inside=inside,
        signs_uploads=bucket.puts is not None,
        # The clouds' own endpoints are reachable from everywhere; the endpoint of another store may be private.
        is_reachable=public_endpoint is not None or location.endpoint is None,
    )
    return ObjectStoreBackend(bucket, location.prefix, signing)


async def open_bucket(url: str) -> tuple[Bucket, Location]:
    """Return the bucket of a URL, and what the URL denotes. Raises ValueError as `open_object_store` does."""
    location = parse(url)
    _give_back_freed_buffers()
    # In a thread because opening reads files, and may ask the host for its role.
    return await asyncio.to_thread(_open, location), location


def _give_back_freed_buffers() -> None:
    """Make each buffer of a part or a chunk go back to the system when it is freed, in the whole process.

    By default glibc also takes large buffers from the system one by one, but it counts a buffer as large only if it is
    larger than any that was freed before. With parts of 5 MiB glibc soon retains all of them, and fills the gaps
    between them. With another C library this function does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)


def _open(location: Location) -> Bucket:
    match location:
        case GcsLocation():
            return gcs.open_bucket(location)
        case AzureLocation():
            return azure.open_bucket(location)
    return s3.open_bucket(location)
