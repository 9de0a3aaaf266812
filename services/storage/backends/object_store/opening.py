"""Opening of the backend that the URL of an object store denotes."""

import asyncio
from dataclasses import replace

from services.storage.backends.object_store import azure, gcs, s3
from services.storage.backends.object_store.allocator import give_back_freed_buffers
from services.storage.backends.object_store.backend import ObjectStoreBackend
from services.storage.backends.object_store.bucket import Bucket
from services.storage.backends.object_store.location import AzureLocation, GcsLocation, Location, parse, parse_endpoint
from services.storage.backends.object_store.signer import UrlSigner
from services.storage.backends.signing import Signing


async def open_object_store(url: str, public_endpoint: str | None = None) -> ObjectStoreBackend:
    """Return the backend of a URL.

    The URLs that it signs for clients begin with `public_endpoint`, or else with the public endpoint of the URL, or
    else with the endpoint of the URL. Raises ValueError for a URL that denotes no object store, and if no credentials
    are found.
    """
    location = parse(url)
    give_back_freed_buffers()
    # In a thread because opening reads files, and may ask the host for its role.
    bucket = await asyncio.to_thread(_open, location)
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


def _open(location: Location) -> Bucket:
    match location:
        case GcsLocation():
            return gcs.open_bucket(location)
        case AzureLocation():
            return azure.open_bucket(location)
    return s3.open_bucket(location)
