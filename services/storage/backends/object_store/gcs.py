"""Buckets of Google Cloud Storage."""

from functools import partial

from obstore.exceptions import BaseError
from obstore.store import GCSStore

from services.storage.backends.object_store.bucket import Bucket, delete
from services.storage.backends.object_store.client_options import StoreOptions, request_options, upload_options
from services.storage.backends.object_store.errors import cause_of
from services.storage.backends.object_store.location import GcsLocation


def open_bucket(location: GcsLocation) -> Bucket:
    """Open a bucket with the credentials of the environment, a file or this host. Raises ValueError.

    `Bucket.discard` removes only objects here. obstore can neither list nor remove the parts of unfinished uploads: a
    lifecycle rule `AbortIncompleteMultipartUpload` of the bucket does that.
    """

    def store(options: StoreOptions) -> GCSStore:
        if location.endpoint is None:
            return GCSStore(location.bucket, **options)
        return GCSStore(location.bucket, base_url=location.endpoint, **options)

    try:
        uploads = store(upload_options(location.endpoint))
        requests = store(request_options(location.endpoint))
    except (BaseError, OSError) as error:
        raise ValueError(f"storage_url: gs: the settings of Google cannot be used: {cause_of(error)}") from None
    return Bucket(uploads=uploads, requests=requests, discard=partial(delete, requests))
