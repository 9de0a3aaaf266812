"""AdminService: stores, administered in the storage service by name."""

from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1 import store_service_pb2 as storage

from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.models import User


class StoreHandlers(Handlers):
    """Adds, lists and removes stores, and moves blobs from one store to another."""

    @administrator_only
    async def CreateStore(self, request: pb.CreateStoreRequest, _administrator: User) -> pb.CreateStoreResponse:
        """Add a store."""
        store = await self.storage.create_store(storage.CreateStoreRequest(name=request.name, url=request.url))
        return pb.CreateStoreResponse(store=store)

    @administrator_only
    async def ListStores(self, request: pb.ListStoresRequest, _administrator: User) -> pb.ListStoresResponse:
        """Return all stores, ordered by name."""
        return pb.ListStoresResponse(stores=await self.storage.list_stores())

    @administrator_only
    async def StartCopy(self, request: pb.StartCopyRequest, _administrator: User) -> pb.StartCopyResponse:
        """Make a store a copy of another store."""
        store = await self.storage.start_copy(
            storage.StartCopyRequest(
                from_store=request.from_store,
                to_store=request.to_store,
                parallel=request.parallel,
                bytes_per_second=request.bytes_per_second,
            )
        )
        return pb.StartCopyResponse(store=store)

    @administrator_only
    async def StopCopy(self, request: pb.StopCopyRequest, _administrator: User) -> pb.StopCopyResponse:
        """Stop filling a copy; the store is no longer a copy, and retains its blobs."""
        return pb.StopCopyResponse(store=await self.storage.stop_copy(request.name))

    @administrator_only
    async def SetPrimaryStore(
        self, request: pb.SetPrimaryStoreRequest, _administrator: User
    ) -> pb.SetPrimaryStoreResponse:
        """Make a store the primary."""
        return pb.SetPrimaryStoreResponse(store=await self.storage.set_primary_store(request.name))

    @administrator_only
    async def DeleteStore(self, request: pb.DeleteStoreRequest, _administrator: User) -> pb.DeleteStoreResponse:
        """Remove a store from the index; its blobs are not deleted."""
        await self.storage.delete_store(request.name)
        return pb.DeleteStoreResponse()
