"""Client of the storage service for administration. It sends the ids of repositories, never their names."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from google.protobuf.message import Message
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1 import store_service_pb2 as stores
from towpath.storage.v1.storage_service_pb2_grpc import StorageServiceStub
from towpath.storage.v1.store_service_pb2_grpc import StoreServiceStub

from services.common.rpc.client import ServiceClient
from services.common.rpc.tls import Tls

Response = TypeVar("Response")

_DEADLINE_SECONDS = 30.0
# The storage service reads the whole index to find the objects that a store lacks.
_STORE_DEADLINE_SECONDS = 60.0

_SERVICE: str = pb.DESCRIPTOR.services_by_name["StorageService"].full_name
_STORE_SERVICE: str = stores.DESCRIPTOR.services_by_name["StoreService"].full_name
_REPEATABLE = {
    _SERVICE: ["DeleteObject", "DeleteRepository", "ListObjects", "GetUsage"],
    _STORE_SERVICE: ["CreateStore", "ListStores", "StartCopy", "StopCopy", "SetPrimaryStore", "DeleteStore"],
}


class StorageClient:
    """Calls of the storage service; each raises the `ServiceError` that the service raised, or `Unavailable`."""

    def __init__(
        self, address: str, *, secret: SecretStr | None, admin_secret: SecretStr | None, tls: Tls | None
    ) -> None:
        self._client = ServiceClient(
            address,
            deadline=_DEADLINE_SECONDS,
            secret=secret,
            admin_secret=admin_secret,
            tls=tls,
            repeatable=_REPEATABLE,
        )
        self._stub = StorageServiceStub(self._client.channel)
        self._stores = StoreServiceStub(self._client.channel)

    async def list_objects(self, request: pb.ListObjectsRequest) -> pb.ListObjectsResponse:
        """Return a page of a repository's objects."""
        return await self._client.call(self._stub.ListObjects, request)

    async def delete_object(self, request: pb.DeleteObjectRequest) -> pb.Object:
        """Remove an object from a repository and return its tombstone."""
        response = await self._client.call(self._stub.DeleteObject, request)
        return response.object

    async def restore_object(self, request: pb.RestoreObjectRequest) -> None:
        """Delete an object's tombstone."""
        await self._client.call(self._stub.RestoreObject, request)

    async def delete_repository(self, repository_id: int) -> None:
        """Remove all objects and tombstones of a repository; a second call changes nothing."""
        await self._client.call(self._stub.DeleteRepository, pb.DeleteRepositoryRequest(repository_id=repository_id))

    async def usage(self, repository_ids: Sequence[int]) -> pb.GetUsageResponse:
        """Return the usage of the repositories, in the order of `repository_ids`."""
        return await self._client.call(self._stub.GetUsage, pb.GetUsageRequest(repository_ids=repository_ids))

    async def create_store(self, request: stores.CreateStoreRequest) -> stores.Store:
        """Add a store and return it."""
        return (await self._call(self._stores.CreateStore, request)).store

    async def list_stores(self) -> Sequence[stores.Store]:
        """Return all stores, ordered by name, with the number and bytes of the objects that each store lacks."""
        return (await self._call(self._stores.ListStores, stores.ListStoresRequest())).stores

    async def start_copy(self, request: stores.StartCopyRequest) -> stores.Store:
        """Make a store a copy of another store and return it."""
        return (await self._call(self._stores.StartCopy, request)).store

    async def stop_copy(self, name: str) -> stores.Store:
        """Stop filling a copy and return the store; it is no longer a copy, and retains its blobs."""
        return (await self._call(self._stores.StopCopy, stores.StopCopyRequest(name=name))).store

    async def set_primary_store(self, name: str) -> stores.Store:
        """Make a store the primary and return it."""
        return (await self._call(self._stores.SetPrimaryStore, stores.SetPrimaryStoreRequest(name=name))).store

    async def delete_store(self, name: str) -> None:
        """Remove a store from the index; its blobs are not deleted."""
        await self._call(self._stores.DeleteStore, stores.DeleteStoreRequest(name=name))

    async def _call(self, method: Callable[..., Awaitable[Response]], request: Message) -> Response:
        return await self._client.call(method, request, deadline=_STORE_DEADLINE_SECONDS)

    async def close(self) -> None:
        """Close the channel."""
        await self._client.close()
