"""AdminService: stores, administered in the storage service by name."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1 import store_service_pb2 as storage

from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.audit_messages import store_fields
from services.locks.audit import event_types
from services.locks.models import User

_Response = TypeVar("_Response")

# The storage service reads the whole index to find the objects that a store lacks.
_DEADLINE_SECONDS = 60.0


class StoreHandlers(Handlers):
    """Adds, lists and removes stores, and moves blobs from one store to another."""

    @administrator_only
    async def CreateStore(self, request: pb.CreateStoreRequest, _administrator: User) -> pb.CreateStoreResponse:
        """Add a store."""
        created = await self._call(
            self.storage.stores.CreateStore, storage.CreateStoreRequest(name=request.name, url=request.url)
        )
        await self.audit(event_types.STORE_CREATED, subject=f"store {request.name}", after=store_fields(created.store))
        return pb.CreateStoreResponse(store=created.store)

    @administrator_only
    async def ListStores(self, request: pb.ListStoresRequest, _administrator: User) -> pb.ListStoresResponse:
        """Return all stores, ordered by name."""
        listed = await self._call(self.storage.stores.ListStores, storage.ListStoresRequest())
        return pb.ListStoresResponse(stores=listed.stores)

    @administrator_only
    async def StartCopy(self, request: pb.StartCopyRequest, _administrator: User) -> pb.StartCopyResponse:
        """Make a store a copy of another store."""
        started = await self._call(
            self.storage.stores.StartCopy,
            storage.StartCopyRequest(
                from_store=request.from_store,
                to_store=request.to_store,
                parallel=request.parallel,
                bytes_per_second=request.bytes_per_second,
            ),
        )
        copy = store_fields(started.store) | {"from_store": request.from_store}
        await self.audit(event_types.STORE_COPY_STARTED, subject=f"store {request.to_store}", after=copy)
        return pb.StartCopyResponse(store=started.store)

    @administrator_only
    async def StopCopy(self, request: pb.StopCopyRequest, _administrator: User) -> pb.StopCopyResponse:
        """Stop filling a copy; the store is no longer a copy, and retains its blobs."""
        stopped = await self._call(self.storage.stores.StopCopy, storage.StopCopyRequest(name=request.name))
        await self.audit(
            event_types.STORE_COPY_STOPPED, subject=f"store {request.name}", after=store_fields(stopped.store)
        )
        return pb.StopCopyResponse(store=stopped.store)

    @administrator_only
    async def SetPrimaryStore(
        self, request: pb.SetPrimaryStoreRequest, _administrator: User
    ) -> pb.SetPrimaryStoreResponse:
        """Make a store the primary."""
        changed = await self._call(
            self.storage.stores.SetPrimaryStore, storage.SetPrimaryStoreRequest(name=request.name)
        )
        await self.audit(
            event_types.STORE_PRIMARY_SET, subject=f"store {request.name}", after=store_fields(changed.store)
        )
        return pb.SetPrimaryStoreResponse(store=changed.store)

    @administrator_only
    async def DeleteStore(self, request: pb.DeleteStoreRequest, _administrator: User) -> pb.DeleteStoreResponse:
        """Remove a store from the index; its blobs are not deleted."""
        await self._call(self.storage.stores.DeleteStore, storage.DeleteStoreRequest(name=request.name))
        await self.audit(event_types.STORE_DELETED, subject=f"store {request.name}")
        return pb.DeleteStoreResponse()

    async def _call(self, method: Callable[..., Awaitable[_Response]], request: Message) -> _Response:
        return await self.storage.call(method, request, deadline=_DEADLINE_SECONDS)
