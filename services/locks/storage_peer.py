"""The storage service, as administration needs it; it is told ids of repositories, never names."""

from collections.abc import Sequence

from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1.storage_service_pb2_grpc import StorageServiceStub

from services.common.rpc.client import Peer
from services.common.rpc.tls import Tls

_DEADLINE_SECONDS = 30.0
_SERVICE: str = pb.DESCRIPTOR.services_by_name["StorageService"].full_name
_REPEATABLE = ["DeleteObject", "DeleteRepository", "ListObjects", "GetUsage"]


class StoragePeer:
    """Calls of the storage service; each raises the `ServiceError` that the service raised, or `Unavailable`."""

    def __init__(self, address: str, *, secret: SecretStr | None, tls: Tls | None) -> None:
        self._peer = Peer(
            address, deadline=_DEADLINE_SECONDS, secret=secret, tls=tls, repeatable={_SERVICE: _REPEATABLE}
        )
        self._stub = StorageServiceStub(self._peer.channel)

    async def list_objects(self, request: pb.ListObjectsRequest) -> pb.ListObjectsResponse:
        """Return a page of a repository's objects."""
        return await self._peer.call(self._stub.ListObjects, request)

    async def delete_object(self, request: pb.DeleteObjectRequest) -> pb.Object:
        """Remove an object from a repository and return its tombstone."""
        response = await self._peer.call(self._stub.DeleteObject, request)
        return response.object

    async def restore_object(self, request: pb.RestoreObjectRequest) -> None:
        """Take an object's tombstone away."""
        await self._peer.call(self._stub.RestoreObject, request)

    async def delete_repository(self, repository_id: int) -> None:
        """Forget all objects and tombstones of a repository; a second call changes nothing."""
        await self._peer.call(self._stub.DeleteRepository, pb.DeleteRepositoryRequest(repository_id=repository_id))

    async def usage(self, repository_ids: Sequence[int]) -> pb.GetUsageResponse:
        """Return the usage of the repositories, in the order asked."""
        return await self._peer.call(self._stub.GetUsage, pb.GetUsageRequest(repository_ids=repository_ids))

    async def close(self) -> None:
        """Close the channel."""
        await self._peer.close()
