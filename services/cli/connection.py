"""The administration commands' connection to AdminService, through a data folder of this host or a remote address."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import grpc
import typer
from google.protobuf.message import Message
from pydantic import SecretStr
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.access.v1.admin_service_pb2_grpc import AdminServiceStub

from services.cli.errors import CommandError, NotReached
from services.cli.settings import CommandSettings
from services.cli.up.runtime_directory import LOCKS_SOCKET, runtime_directory
from services.common.errors import DeadlineExceeded, Reason, ServiceError
from services.common.rpc.client import ServiceClient
from services.common.rpc.streams import exchange
from services.common.rpc.tls import Tls

if TYPE_CHECKING:
    # Only the type stubs distinguish the asynchronous stub from the synchronous one.
    from towpath.access.v1.admin_service_pb2_grpc import AdminServiceAsyncStub

Response = TypeVar("Response")
Streamed = TypeVar("Streamed", bound=Message)
Result = TypeVar("Result")

# Long enough for a service of a busy host, and short enough to report soon that no service is there.
_CONNECT_SECONDS = 10.0
# Removing a repository with many objects is one call.
_CALL_SECONDS = 120.0
_SILENT_SECONDS = 20.0
# The storage service looks through all objects of a repository before it answers.
_EXCHANGE_SECONDS = 600.0
_SERVICE: str = pb.DESCRIPTOR.services_by_name["AdminService"].full_name


class Administration:
    """A client of AdminService with an administrator's token."""

    def __init__(self, client: ServiceClient) -> None:
        self.stub: AdminServiceAsyncStub = AdminServiceStub(client.channel)
        self._client = client

    async def call(self, method: Callable[..., Awaitable[Response]], request: Message) -> Response:
        """Call a method of `stub`. Raises the `ServiceError` that the service returns."""
        return await self._client.call(method, request)

    async def stream(
        self, method: Callable[..., "grpc.aio.UnaryStreamCall[Any, Response]"], request: Message
    ) -> AsyncGenerator[Response, None]:
        """Yield the responses of a method of `stub` until the service ends the call.

        Raises the `ServiceError` that the service returns, and `DeadlineExceeded` after 20 s without a response.
        """
        call = method(request, metadata=self._client.metadata(), wait_for_ready=True)
        try:
            while True:
                async with asyncio.timeout(_SILENT_SECONDS):
                    response = await call.read()
                if response is grpc.aio.EOF:
                    return
                yield cast("Response", response)
        except grpc.aio.AioRpcError as error:
            raise self._client.error(error) from error
        except TimeoutError as error:
            raise DeadlineExceeded(Reason.DEADLINE_EXCEEDED, "the service is silent") from error
        finally:
            call.cancel()

    def exchange(
        self, method: str, messages: AsyncIterator[Message], response: type[Streamed]
    ) -> AsyncGenerator[Streamed, None]:
        """Send messages to a method of AdminService, and yield the responses; see `streams.exchange`."""
        return exchange(self._client, f"/{_SERVICE}/{method}", messages, response, answer_seconds=_EXCHANGE_SECONDS)


@asynccontextmanager
async def administration(address: str, token: SecretStr, tls: Tls | None = None) -> AsyncIterator[Administration]:
    """Connect to AdminService at a gRPC address. Raises `CommandError` if it cannot be reached within 10 s."""
    client = ServiceClient(address, deadline=_CALL_SECONDS, secret=token, tls=tls)
    try:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await client.channel.channel_ready()
        except TimeoutError:
            asked = "does it accept our certificate" if tls else "does it want a certificate (TOWPATH_TLS_...)"
            raise NotReached(f"no answer from {address}: does the lock service run there, and {asked}?") from None
        yield Administration(client)
    finally:
        await client.close()


@dataclass(frozen=True)
class Location:
    """The address of AdminService, the token to present there, the token's source, and the TLS configuration."""

    address: str
    token: SecretStr
    token_source: str
    tls: Tls | None = None


@dataclass(frozen=True)
class Target:
    """The stack that a command administers: at the address `server` if it is given, else on the data folder `data`.

    If neither is given, the environment names the stack: TOWPATH_SERVER takes precedence over TOWPATH_DATA.
    """

    data: Path | None
    server: str | None

    def locate(self) -> Location:
        """Return the location of AdminService.

        Raises `CommandError` if the folder has no token or no running `towpath up`, or if the TLS settings are invalid,
        and typer's usage error if there is no token for a server.
        """
        settings = CommandSettings.read()
        server = self.server or (settings.server if self.data is None else None)
        if server is not None:
            return _remote(server, settings, "--server" if self.server else "TOWPATH_SERVER")
        return _local((self.data or settings.data).resolve())

    def reach(self, work: Callable[[Location], Awaitable[Result]]) -> Result:
        """Do work that connects to a location, and return its result. Raises `CommandError` and `ServiceError`.

        The error of a token that the service refuses names the token's source.
        """
        location = self.locate()

        async def located() -> Result:
            return await work(location)

        try:
            return asyncio.run(located())
        except ServiceError as error:
            if error.reason == Reason.BAD_CREDENTIALS:
                raise CommandError(f"{location.token_source}: {error.message}") from error
            raise

    def run(self, work: Callable[[Administration], Awaitable[Result]]) -> Result:
        """Connect to AdminService, do the work, and return its result; see `reach`."""

        async def connected(location: Location) -> Result:
            async with administration(location.address, location.token, location.tls) as admin:
                return await work(admin)

        return self.reach(connected)

    def ask(
        self,
        method: Callable[["AdminServiceAsyncStub"], Callable[..., Awaitable[Response]]],
        request: Message,
    ) -> Response:
        """Make one call, as in `ask(lambda admin: admin.CreateUser, request)`; see `run`."""
        return self.run(lambda admin: admin.call(method(admin.stub), request))


def _remote(server: str, settings: CommandSettings, named_by: str) -> Location:
    try:
        tls = settings.read_tls()
    except ValueError as error:
        raise CommandError(str(error)) from error
    if settings.token is not None:
        return Location(server, settings.token, "TOWPATH_TOKEN", tls)
    if settings.admin_token is not None:
        return Location(server, settings.admin_token, "the secret file towpath_admin_token", tls)
    raise typer.BadParameter(
        "set TOWPATH_TOKEN to the token of an administrator, or have it in the file towpath_admin_token "
        "of the folder TOWPATH_SECRETS_DIR (/run/secrets)",
        param_hint=named_by,
    )


def _local(data: Path) -> Location:
    try:
        token = (data / "admin-token").read_text().strip()
    except FileNotFoundError:
        raise CommandError(
            f"{data}: no data of a `towpath up`; start one, or give --data or --server (TOWPATH_SERVER)"
        ) from None
    except OSError as error:
        raise CommandError(f"{data}/admin-token: {(error.strerror or str(error)).lower()}") from error
    socket = runtime_directory(data) / LOCKS_SOCKET
    if not socket.exists():
        raise NotReached(f"{data}: `towpath up` does not run on it")
    return Location(f"unix:{socket}", SecretStr(token), f"{data}/admin-token")
