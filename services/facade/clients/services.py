"""Channels, stubs and clients with which the facade calls the inner services."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Self

import grpc
from towpath.access.v1 import access_service_pb2_grpc, admin_service_pb2_grpc
from towpath.locks.v1 import lock_service_pb2_grpc
from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1 import storage_service_pb2_grpc

from services.common.rpc.client import Health, ServiceClient
from services.facade.clients.health_cache import HealthCache
from services.facade.clients.lock_feeds import LockFeeds
from services.facade.clients.lock_generations import LockGenerations
from services.facade.clients.object_lookup import ObjectLookupClient
from services.facade.clients.rate_leases import RateLeases
from services.facade.clients.small_uploads import SmallUploadClient
from services.facade.settings import FacadeSettings

STORAGE_SERVICE = "towpath.storage.v1.StorageService"
LOCK_SERVICE = "towpath.locks.v1.LockService"
ACCESS_SERVICE = "towpath.access.v1.AccessService"

# Methods that are safe for gRPC to retry by itself; `objects.upload` and `objects.download` do their own retries.
_REPEATABLE = {
    STORAGE_SERVICE: ["BatchStatObjects", "ConfirmObject", "GetPartialUpload", "LocateObject", "WatchRemovals"],
    LOCK_SERVICE: [
        "CreateLock",
        "ListLocks",
        "VerifyLocks",
        "DeleteLock",
        "CreateLocks",
        "DeleteLocks",
        "StealLock",
        "ListReleasedLocks",
    ],
    ACCESS_SERVICE: ["Authenticate", "CheckAccess", "WatchAccess", "TakeRate", "ListSignIns"],
}

_HEALTH_PAUSE_SECONDS = 0.05


class ServiceClients:
    """The channels to storage and locks, and the stubs and clients that use them."""

    def __init__(self, settings: FacadeSettings) -> None:
        tls = settings.read_tls()

        def connect(address: str) -> ServiceClient:
            return ServiceClient(
                address,
                deadline=settings.rpc_seconds,
                secret=settings.service_secret,
                tls=tls,
                repeatable=_REPEATABLE,
            )

        self.storage = connect(settings.storage_address)
        self.locks = connect(settings.locks_address)
        self.storage_stub = storage_service_pb2_grpc.StorageServiceStub(self.storage.channel)
        self.objects = ObjectLookupClient(self.storage)
        self.whole_objects = SmallUploadClient(self.storage)
        self.write_object: grpc.aio.StreamUnaryMultiCallable[bytes, pb.WriteObjectResponse]
        """`WriteObject`; its caller serializes the requests."""
        self.write_object = self.storage.channel.stream_unary(
            f"/{STORAGE_SERVICE}/WriteObject", response_deserializer=pb.WriteObjectResponse.FromString
        )
        self.write_shared_object: grpc.aio.StreamStreamMultiCallable[bytes, pb.WriteSharedObjectResponse]
        """`WriteSharedObject`; its caller serializes the requests."""
        self.write_shared_object = self.storage.channel.stream_stream(
            f"/{STORAGE_SERVICE}/WriteSharedObject",
            response_deserializer=pb.WriteSharedObjectResponse.FromString,
        )
        self.append_partial_upload: grpc.aio.StreamUnaryMultiCallable[bytes, pb.AppendPartialUploadResponse]
        """`AppendPartialUpload`; its caller serializes the requests."""
        self.append_partial_upload = self.storage.channel.stream_unary(
            f"/{STORAGE_SERVICE}/AppendPartialUpload",
            response_deserializer=pb.AppendPartialUploadResponse.FromString,
        )
        self.lock_stub = lock_service_pb2_grpc.LockServiceStub(self.locks.channel)
        self.lock_feeds = LockFeeds(self.locks)
        self.lock_generations = LockGenerations(self.locks)
        self.rates = RateLeases(self.locks)
        self.health = HealthCache(self._ask_health)
        self.admin_stub = admin_service_pb2_grpc.AdminServiceStub(self.locks.channel)
        """AdminService, whose calls show the credential of an administrator in place of the service's secret."""
        self.access_stub = access_service_pb2_grpc.AccessServiceStub(self.locks.channel)

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: FacadeSettings) -> AsyncIterator[Self]:
        """Open the channels, and close them when the block ends."""
        clients = cls(settings)
        try:
            yield clients
        finally:
            await clients.health.close()
            await clients.lock_feeds.close()
            await clients.lock_generations.close()
            await clients.rates.close()
            await clients.whole_objects.close()
            await clients.objects.close()
            await clients.storage.close()
            await clients.locks.close()

    async def wait_serving(self) -> None:
        """Wait, without a timeout, until both services report that they serve."""
        while set((await self._ask_health()).values()) != {Health.SERVING}:  # noqa: ASYNC110 - they are other processes
            await asyncio.sleep(_HEALTH_PAUSE_SECONDS)

    async def _ask_health(self) -> Mapping[str, Health]:
        storage, locks = await asyncio.gather(self.storage.health(STORAGE_SERVICE), self.locks.health(LOCK_SERVICE))
        return {"storage": storage, "locks": locks}
