"""A small lock service of one's own, on a port, to see what connections do."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pydantic import SecretStr
from towpath.locks.v1 import lock_service_pb2 as pb
from towpath.locks.v1 import lock_service_pb2_grpc as pb_grpc
from towpath.storage.v1 import storage_service_pb2 as storage_pb
from towpath.storage.v1 import storage_service_pb2_grpc as storage_grpc

from services.common.rpc.client import ServiceClient
from services.common.rpc.interceptors import Context
from services.common.rpc.server import Server
from services.common.rpc.tls import Tls
from tests.support.waiting import until

SERVICE = pb.DESCRIPTOR.services_by_name["LockService"].full_name
SECRET = SecretStr("between-services")
REPEATABLE = {SERVICE: ["VerifyLocks"]}


class Replica(pb_grpc.LockServiceServicer, storage_grpc.StorageServiceServicer):
    """It counts its calls and the connections they come on, and streams an object until it is told to end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.connections: set[str] = set()
        self.end_streams = asyncio.Event()

    async def VerifyLocks(self, request: pb.VerifyLocksRequest, context: Context) -> pb.VerifyLocksResponse:
        """Answer with the name of this replica."""
        self.calls += 1
        self.connections.add(context.peer())
        return pb.VerifyLocksResponse(next_cursor=self.name)

    async def ReadObject(
        self, request: storage_pb.ReadObjectRequest, context: Context
    ) -> AsyncIterator[storage_pb.ReadObjectResponse]:
        """Send a byte, and another one when `end_streams` is set."""
        self.connections.add(context.peer())
        yield storage_pb.ReadObjectResponse(data=b"1")
        await self.end_streams.wait()
        yield storage_pb.ReadObjectResponse(data=b"2")


@asynccontextmanager
async def serving(
    address: str, *, name: str = "only", tls: Tls | None = None, connection_seconds: float = 10
) -> AsyncIterator[tuple[Replica, Server]]:
    """Run a replica there, on any free port where the address ends in `:0`."""
    replica = Replica(name)  # type: ignore[abstract] # the types ask for every method; nobody calls the others
    server = Server(
        address,
        secret=SECRET,
        drain_seconds=1,
        tls=tls,
        connection_seconds=connection_seconds,
        services=[SERVICE],
    )
    pb_grpc.add_LockServiceServicer_to_server(replica, server.grpc)
    storage_grpc.add_StorageServiceServicer_to_server(replica, server.grpc)
    await server.start()
    await server.set_serving(serving=True)
    try:
        yield replica, server
    finally:
        await server.grpc.stop(0)


class Caller:
    """A peer of replicas, and what it asks them."""

    def __init__(self, peer: ServiceClient) -> None:
        self.peer = peer
        self._locks = pb_grpc.LockServiceStub(peer.channel)
        self.storage = storage_grpc.StorageServiceStub(peer.channel)

    async def ask(self) -> str:
        """Return the name of the replica that answers."""
        return (await self.peer.call(self._locks.VerifyLocks, pb.VerifyLocksRequest())).next_cursor

    async def ask_until(self, *names: str) -> Sequence[str]:
        """Ask until all of these have answered; return all answers."""
        answers: list[str] = []

        async def all_have_answered() -> bool:
            answers.append(await self.ask())
            return set(names) <= set(answers)

        await until(all_have_answered, f"{names} answer")
        return answers


@asynccontextmanager
async def calling(
    address: str,
    *,
    deadline: float = 12,
    secret: SecretStr | None = SECRET,
    tls: Tls | None = None,
    repeatable: dict[str, list[str]] | None = None,
) -> AsyncIterator[Caller]:
    """Call the replicas at an address."""
    peer = ServiceClient(address, deadline=deadline, secret=secret, tls=tls, repeatable=repeatable)
    try:
        yield Caller(peer)
    finally:
        await peer.close()
