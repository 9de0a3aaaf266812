"""Inner services that do what a test says: real gRPC servers, one for all three services."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx
from google.protobuf.message import Message
from pydantic import SecretStr
from towpath.access.v1 import access_service_pb2, access_service_pb2_grpc
from towpath.locks.v1 import lock_service_pb2_grpc
from towpath.storage.v1 import storage_service_pb2 as storage
from towpath.storage.v1 import storage_service_pb2_grpc

from services.common.errors import Reason, Unimplemented
from services.common.rpc.server import Server
from services.facade.auth.action_tokens import ActionGrant, ActionTokens, ObjectLocation, Operation
from services.facade.clients.services import ACCESS_SERVICE, LOCK_SERVICE, STORAGE_SERVICE
from tests.support.action_tokens import issue
from tests.support.facade import SIGNING_KEY, RunningFacade
from tests.support.http import Action, Client, content, oid_of

DATA = content("data", 100)
OID = oid_of(DATA)


def client_of(facade: RunningFacade) -> Client:
    """Return a client whom the services let in."""
    return Client(f"{facade.origin}/demo/assets", "alice", "token")


def action_of(
    facade: RunningFacade, operation: Operation, size: int = len(DATA), place: ObjectLocation | None = None
) -> Action:
    """Return an action on the object DATA, which may lie at a known place."""
    grant = ActionGrant(operation, "demo/assets", 1, OID, size, "alice", place=place)
    token = issue(ActionTokens(SecretStr(SIGNING_KEY)), grant, int(time.time()) + 60)
    return Action(f"{facade.origin}/demo/assets/objects/{OID}", {"Authorization": f"Bearer {token}"})


def check_error(response: httpx.Response, status: int) -> None:
    """Check that a response is this error, as the protocol writes it."""
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    assert body["message"]
    assert body["request_id"] == response.headers["x-request-id"]
    assert "objects" not in body
    if status >= 500:
        assert body["request_id"] in body["message"]
        assert "secret words" not in body["message"] or status in (507, 509)
    assert ("retry-after" in response.headers) == (status in (429, 503))


class Scripted:
    """The methods of all three services; each does what `answers` has under its name, or is not implemented.

    An answer is a function of the request that returns the reply; that of `ReadObject` is an async generator.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[Any], Any]] = {}
        self.reply("Authenticate", access_service_pb2.AuthenticateResponse(user_id=1, user_name="alice"))
        self.reply("CheckAccess", access_service_pb2.CheckAccessResponse(repository_id=1))

    def reply(self, name: str, message: Message) -> None:
        """Let a call be answered with this."""

        async def answer(_request: object) -> Message:
            return message

        self.answers[name] = answer

    def fail(self, name: str, error: Exception) -> None:
        """Let a call fail with this."""

        async def answer(_request: object) -> Message:
            raise error

        self.answers[name] = answer

    def record(self, name: str) -> list[Any]:
        """Return what a call is asked from now on; it is answered as before."""
        asked: list[Any] = []
        answer = self.answers[name]

        async def recorded(request: object) -> Message:
            asked.append(request)
            reply: Message = await answer(request)
            return reply

        self.answers[name] = recorded
        return asked

    def __getattr__(self, name: str) -> Callable[[Any, Any], Awaitable[Message]]:
        """Return the method of this name, which looks its answer up when it is called."""

        async def handle(request: object, _context: object) -> Message:
            if name not in self.answers:
                raise Unimplemented(Reason.UNIMPLEMENTED, f"{name} is not implemented")
            answer: Message = await self.answers[name](request)
            return answer

        return handle

    async def ReadObject(
        self, request: storage.ReadObjectRequest, _context: object
    ) -> AsyncIterator[storage.ReadObjectResponse]:
        """Send what the answer yields."""
        async for message in self.answers["ReadObject"](request):
            yield message


Running: TypeAlias = tuple[Scripted, RunningFacade]
"""Services that do what a test says, and a facade in front of them."""


@asynccontextmanager
async def running_scripted(folder: Path) -> AsyncIterator[tuple[Scripted, str]]:
    """Serve on a socket; yield what is served, and the address."""
    scripted = Scripted()
    servicer: Any = scripted
    address = f"unix:{folder / 'scripted.sock'}"
    server = Server(address, secret=None, drain_seconds=0.1, services=[STORAGE_SERVICE, LOCK_SERVICE, ACCESS_SERVICE])
    access_service_pb2_grpc.add_AccessServiceServicer_to_server(servicer, server.grpc)
    lock_service_pb2_grpc.add_LockServiceServicer_to_server(servicer, server.grpc)
    storage_service_pb2_grpc.add_StorageServiceServicer_to_server(servicer, server.grpc)
    await server.start()
    await server.set_serving(serving=True)
    try:
        yield scripted, address
    finally:
        await server.grpc.stop(0.1)
