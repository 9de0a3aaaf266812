"""Containers of Azure Blob Storage."""

from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError
from obstore.store import AzureStore

from services.storage.backends.object_store.bucket import Bucket, delete
from services.storage.backends.object_store.client_options import StoreOptions, request_options, upload_options
from services.storage.backends.object_store.deadlines import ANSWER_SECONDS
from services.storage.backends.object_store.errors import asked, cause_of
from services.storage.backends.object_store.location import AzureLocation

if TYPE_CHECKING:  # a type of obstore that does not exist at run time
    from obstore.store import AzureConfig


def open_bucket(location: AzureLocation) -> Bucket:
    """Open a container with the credentials of the environment, a file or this host. Raises ValueError."""

    def store(options: StoreOptions) -> AzureStore:
        # obstore takes the account and the endpoint from the environment if the URL has none.
        named: AzureConfig = {}
        if location.account is not None:
            named["account_name"] = location.account
        if location.endpoint is not None:
            named["endpoint"] = location.endpoint
        return AzureStore(location.container, config=named, **options)

    try:
        uploads = store(upload_options(location.endpoint))
        requests = store(request_options(location.endpoint))
    except (BaseError, OSError) as error:
        raise ValueError(f"storage_url: az: the settings of Azure cannot be used: {cause_of(error)}") from None

    async def discard(key: str) -> None:
        if not await delete(requests, key):
            # Azure drops uncommitted blocks when a blob is put under their key. obstore can neither list the blocks nor
            # report whether there are any.
            async with asked("drop the blocks of an object", ANSWER_SECONDS):
                await obstore.put_async(requests, key, b"", use_multipart=False)
            await delete(requests, key)

    return Bucket(uploads=uploads, requests=requests, discard=discard)
