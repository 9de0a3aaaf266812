"""The stores of a storage service, as an operator changes them."""

from pathlib import Path
from typing import TYPE_CHECKING

from towpath.storage.v1 import store_service_pb2 as pb
from towpath.storage.v1.store_service_pb2_grpc import StoreServiceStub

from tests.support.storage import StorageClient, stored_path
from tests.support.waiting import STEP_SECONDS, until

if TYPE_CHECKING:  # the stubs of the stubs know it, and they alone
    from towpath.storage.v1.store_service_pb2_grpc import StoreServiceAsyncStub


class Stores:
    """The stores of one service; those that this adds are folders beside the service's first."""

    def __init__(self, storage: StorageClient) -> None:
        self.stub: StoreServiceAsyncStub = StoreServiceStub(storage.channel)
        self._folder = storage.root.parent

    def root(self, name: str) -> Path:
        """Return the folder of a store."""
        return self._folder / ("bytes" if name == "first" else name)

    def path(self, name: str, oid: str) -> Path:
        """Return where an object's bytes lie in a store; a path that does not exist where there are none."""
        return stored_path(self.root(name), oid)

    async def add(self, name: str, url: str | None = None) -> pb.Store:
        """Add a store."""
        request = pb.CreateStoreRequest(name=name, url=url or self.root(name).as_uri())
        return (await self.stub.CreateStore(request, timeout=STEP_SECONDS)).store

    async def get(self, name: str) -> pb.Store:
        """Return a store as it is now."""
        response = await self.stub.ListStores(pb.ListStoresRequest(), timeout=STEP_SECONDS)
        [store] = [store for store in response.stores if store.name == name]
        return store

    async def copy(self, from_store: str, to_store: str, *, parallel: int = 0, rate: int = 0) -> pb.Store:
        """Make a store a copy of another."""
        request = pb.StartCopyRequest(
            from_store=from_store, to_store=to_store, parallel=parallel, bytes_per_second=rate
        )
        return (await self.stub.StartCopy(request, timeout=STEP_SECONDS)).store

    async def stop_copy(self, name: str) -> pb.Store:
        """Let a store be no copy."""
        return (await self.stub.StopCopy(pb.StopCopyRequest(name=name), timeout=STEP_SECONDS)).store

    async def set_primary(self, name: str) -> pb.Store:
        """Make a store the primary."""
        return (await self.stub.SetPrimaryStore(pb.SetPrimaryStoreRequest(name=name), timeout=STEP_SECONDS)).store

    async def remove(self, name: str) -> None:
        """Forget a store."""
        await self.stub.DeleteStore(pb.DeleteStoreRequest(name=name), timeout=STEP_SECONDS)

    async def fill(self, name: str, from_store: str) -> None:
        """Add a store, make it a copy of another, and wait until it is whole."""
        await self.add(name)
        await self.copy(from_store, name)
        await self.wait_filled(name)

    async def wait_filled(self, name: str) -> pb.Store:
        """Wait until a store lacks nothing that another has."""

        async def is_filled() -> bool:
            return (await self.get(name)).lacking_count == 0

        await until(is_filled, f"{name} lacks nothing")
        return await self.get(name)
