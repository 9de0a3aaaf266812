"""How the administration commands reach AdminService: through a data folder of this host, or a remote address."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer
from google.protobuf.message import Message
from pydantic import SecretStr
from towpath.access.v1.admin_service_pb2_grpc import AdminServiceStub

from services.cli.errors import CommandError
from services.cli.up.runtime_directory import LOCKS_SOCKET, runtime_directory
from services.common.errors import Reason, ServiceError
from services.common.rpc.client import Peer

if TYPE_CHECKING:
    # Only the stubs' types know the two kinds apart.
    from towpath.access.v1.admin_service_pb2_grpc import AdminServiceAsyncStub

Response = TypeVar("Response")
Result = TypeVar("Result")

_CONNECT_SECONDS = 4.0
# Removing a repository of many objects is one call.
_CALL_SECONDS = 120.0


class Administration:
    """AdminService, as the administrator with this token may call it."""

    def __init__(self, address: str, token: SecretStr) -> None:
        self.address = address
        self._peer = Peer(address, deadline=_CALL_SECONDS, secret=token)
        self.stub: AdminServiceAsyncStub = AdminServiceStub(self._peer.channel)

    async def connect(self) -> None:
        """Wait until the service is reached. Raises `CommandError` where it is not there within 4 s."""
        try:
            await asyncio.wait_for(self._peer.channel.channel_ready(), timeout=_CONNECT_SECONDS)
        except TimeoutError:
            raise CommandError(f"no answer from {self.address}: does `towpath up` run?") from None

    async def call(self, method: Callable[..., Awaitable[Response]], request: Message) -> Response:
        """Call a method of `stub`. Raises the `ServiceError` of the service."""
        return await self._peer.call(method, request)

    async def close(self) -> None:
        """Close the connection."""
        await self._peer.close()


@asynccontextmanager
async def administration(address: str, token: SecretStr) -> AsyncIterator[Administration]:
    """Connect to AdminService at `unix:PATH` or `HOST:PORT`. Raises `CommandError` where it is not there."""
    connection = Administration(address, token)
    try:
        await connection.connect()
        yield connection
    finally:
        await connection.close()


@dataclass(frozen=True)
class Target:
    """What a command administers: the stack on a data folder, or the one at `server` where it is given."""

    data: Path
    server: str | None

    def locate(self) -> tuple[str, SecretStr]:
        """Return the address and the token. Raises `CommandError` where the folder has none, or typer's usage error."""
        if self.server is not None:
            token = os.environ.get("TOWPATH_TOKEN", "")
            if not token:
                raise typer.BadParameter("set TOWPATH_TOKEN to the token of an administrator", param_hint="--server")
            return self.server, SecretStr(token)
        data = self.data.resolve()
        try:
            token = (data / "admin-token").read_text().strip()
        except FileNotFoundError:
            raise CommandError(f"{data}: no data of a `towpath up`; start one, or give --data or --server") from None
        except OSError as error:
            raise CommandError(f"{data}/admin-token: {(error.strerror or str(error)).lower()}") from error
        socket = runtime_directory(data) / LOCKS_SOCKET
        if not socket.exists():
            raise CommandError(f"{data}: `towpath up` does not run on it")
        return f"unix:{socket}", SecretStr(token)

    def run(self, work: Callable[[Administration], Awaitable[Result]]) -> Result:
        """Connect, do the work, and return what it returns. Raises `CommandError` and `ServiceError`."""
        address, token = self.locate()

        async def connected() -> Result:
            async with administration(address, token) as admin:
                return await work(admin)

        try:
            return asyncio.run(connected())
        except ServiceError as error:
            if error.reason == Reason.BAD_CREDENTIALS:
                source = "TOWPATH_TOKEN" if self.server is not None else f"{self.data.resolve()}/admin-token"
                raise CommandError(f"the token in {source} is not valid") from error
            raise

    def ask(
        self,
        method: Callable[["AdminServiceAsyncStub"], Callable[..., Awaitable[Response]]],
        request: Message,
    ) -> Response:
        """Make one call, as in `ask(lambda admin: admin.CreateUser, request)`; see `run`."""
        return self.run(lambda admin: admin.call(method(admin.stub), request))
