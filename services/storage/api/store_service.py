"""gRPC servicer of StoreService. Each method translates the request, calls one function and translates the result."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from towpath.storage.v1 import store_service_pb2 as pb
from towpath.storage.v1.store_service_pb2_grpc import StoreServiceServicer

from services.storage import validation
from services.storage.context import StorageContext
from services.storage.index import checks, store_table
from services.storage.index.store_table import StoreHoldings, StoreListing
from services.storage.replication import store_admin

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["StoreService"].full_name

_Context = grpc.aio.ServicerContext[Any, Any]


class StoreService(StoreServiceServicer):
    """See `towpath.storage.v1.StoreService`."""

    def __init__(self, context: StorageContext, first_url: str, folders: Sequence[Path]) -> None:
        """Serve the list of stores. The first store has `first_url`; later stores on a disk lie below `folders`."""
        self._context = context
        self._first_url = first_url
        self._folders = folders

    async def CreateStore(self, request: pb.CreateStoreRequest, _context: _Context) -> pb.CreateStoreResponse:
        """Add a store."""
        await store_admin.create_store(
            self._context, request.name, request.url, first_url=self._first_url, folders=self._folders
        )
        return pb.CreateStoreResponse(store=await self._message(request.name))

    async def ListStores(self, _request: pb.ListStoresRequest, _context: _Context) -> pb.ListStoresResponse:
        """Return all stores."""
        return pb.ListStoresResponse(stores=await self._messages())

    async def StartCopy(self, request: pb.StartCopyRequest, _context: _Context) -> pb.StartCopyResponse:
        """Make a store a copy of another."""
        await store_admin.start_copy(
            self._context,
            request.from_store,
            request.to_store,
            parallel=request.parallel,
            bytes_per_second=validation.not_negative("bytes_per_second", request.bytes_per_second),
        )
        return pb.StartCopyResponse(store=await self._message(request.to_store))

    async def StopCopy(self, request: pb.StopCopyRequest, _context: _Context) -> pb.StopCopyResponse:
        """Stop copying to a store."""
        await store_admin.stop_copy(self._context, request.name)
        return pb.StopCopyResponse(store=await self._message(request.name))

    async def SetPrimaryStore(
        self, request: pb.SetPrimaryStoreRequest, _context: _Context
    ) -> pb.SetPrimaryStoreResponse:
        """Make a store the primary."""
        await store_admin.set_primary(self._context, request.name)
        return pb.SetPrimaryStoreResponse(store=await self._message(request.name))

    async def DeleteStore(self, request: pb.DeleteStoreRequest, _context: _Context) -> pb.DeleteStoreResponse:
        """Remove a store from the list."""
        await store_admin.delete_store(self._context, request.name)
        return pb.DeleteStoreResponse()

    async def _message(self, name: str) -> pb.Store | None:
        return next((store for store in await self._messages() if store.name == name), None)

    async def _messages(self) -> list[pb.Store]:
        listed = await self._context.database.run(store_table.list_stores)
        has = await store_admin.holdings_of(self._context)
        checked = await self._context.database.run(checks.oldest)
        names = {store.record.id: store.record.name for store in listed}
        return [_message(store, has, names, checked.get(store.record.id)) for store in listed]


def _message(
    listed: StoreListing,
    holdings: Mapping[int, StoreHoldings],
    names: Mapping[int, str],
    oldest_check_at: datetime.datetime | None,
) -> pb.Store:
    store, copy = listed
    has, anywhere = holdings.get(store.id, StoreHoldings()), holdings[store_table.ANYWHERE]
    message = pb.Store(
        name=store.name,
        url=store.url or "",
        is_primary=store.is_primary,
        object_count=has.objects,
        object_bytes=has.bytes,
        lacking_count=max(0, anywhere.objects - has.objects),
        lacking_bytes=max(0, anywhere.bytes - has.bytes),
    )
    message.created_at.FromDatetime(store.created_at)
    if oldest_check_at is not None:
        message.oldest_check_at.FromDatetime(oldest_check_at)
    if copy is not None:
        message.copy.from_store = names[copy.from_id]
        message.copy.parallel = copy.parallel
        message.copy.bytes_per_second = copy.bytes_per_second or 0
        message.copy.problem = copy.problem
        message.copy.started_at.FromDatetime(copy.started_at)
    return message
