"""The inner services, as the facade calls them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from towpath.access.v1 import access_service_pb2_grpc
from towpath.locks.v1 import lock_service_pb2_grpc
from towpath.storage.v1 import storage_service_pb2_grpc

from services.common.rpc.client import Peer
from services.facade.settings import FacadeSettings

STORAGE_SERVICE = "towpath.storage.v1.StorageService"
LOCK_SERVICE = "towpath.locks.v1.LockService"
ACCESS_SERVICE = "towpath.access.v1.AccessService"

# Those whose second call does no more than the first; streams are repeated by `upload` and `download`.
_REPEATABLE = {
    STORAGE_SERVICE: ["BatchStatObjects"],
    LOCK_SERVICE: ["CreateLock", "ListLocks", "VerifyLocks", "DeleteLock"],
    ACCESS_SERVICE: ["Authenticate", "CheckAccess"],
}
_HEALTH_SECONDS = 2.0


class Peers:
    """The channels to storage and locks, and the stubs on them."""

    def __init__(self, settings: FacadeSettings) -> None:
        def connect(address: str) -> Peer:
            return Peer(address, deadline=settings.rpc_seconds, secret=settings.service_secret, repeatable=_REPEATABLE)

        self.storage = connect(settings.storage_address)
        self.locks = connect(settings.locks_address)
        self.storage_stub = storage_service_pb2_grpc.StorageServiceStub(self.storage.channel)
        self.lock_stub = lock_service_pb2_grpc.LockServiceStub(self.locks.channel)
        self.access_stub = access_service_pb2_grpc.AccessServiceStub(self.locks.channel)

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: FacadeSettings) -> AsyncIterator[Self]:
        """Open the channels, and close them at the end."""
        peers = cls(settings)
        try:
            yield peers
        finally:
            await peers.storage.close()
            await peers.locks.close()

    async def health(self) -> dict[str, str]:
        """Return what each service says of itself: `serving`, `not serving`, or `not answering`."""
        return {
            "storage": await _health(self.storage, STORAGE_SERVICE),
            "locks": await _health(self.locks, LOCK_SERVICE),
        }


async def _health(peer: Peer, service: str) -> str:
    stub = health_pb2_grpc.HealthStub(peer.channel)
    try:
        request = health_pb2.HealthCheckRequest(service=service)
        reply = await stub.Check(request, timeout=_HEALTH_SECONDS)  # type: ignore[attr-defined] # missing in the stubs
    except grpc.aio.AioRpcError:
        return "not answering"
    return "serving" if reply.status == health_pb2.HealthCheckResponse.SERVING else "not serving"
