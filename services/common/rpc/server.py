"""The server's side of gRPC: listening, authentication of callers, error and health reports, and shutdown."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import grpc
from google.protobuf import descriptor_pool
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from pydantic import SecretStr

from services.common.lifecycle import cancel_and_wait
from services.common.rpc.interceptors import CallInterceptor, Context, FurtherSecret, OpenCalls, SecretInterceptor
from services.common.rpc.options import MAX_MESSAGE_BYTES, is_local, server_options
from services.common.rpc.tls import Tls

_CONNECTION_SECONDS = 10.0


class Server:
    """A gRPC server with health, reflection, errors, logs and the secret between services.

    `grpc` is the server to register servicers with; `services` are their full names. The services in `unguarded`
    authenticate their callers themselves; callers of all others must present `secret` or `accepted`, and callers of
    some methods the `further` secret too. Over a network, callers must present a certificate if `tls` is given, and a
    connection is ended gracefully after `connection_seconds`. `waiting` and `frequent` are full names of methods, see
    `CallInterceptor`. `inner` are interceptors of this server alone, and `message_bytes` the most bytes of a message
    that it takes. Raises ValueError for an address that other hosts can reach if there is no secret.
    """

    def __init__(
        self,
        address: str,
        *,
        secret: SecretStr | None,
        accepted: SecretStr | None = None,
        drain_seconds: float,
        tls: Tls | None = None,
        connection_seconds: float = _CONNECTION_SECONDS,
        services: Iterable[str],
        unguarded: Iterable[str] = (),
        waiting: Iterable[str] = (),
        frequent: Iterable[str] = (),
        further: FurtherSecret | None = None,
        inner: Sequence[grpc.aio.ServerInterceptor] = (),
        message_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        if not (secret and secret.get_secret_value()) and not is_local(address):
            raise ValueError(f"service_secret: needed to listen on {address}, which is not a unix socket")
        self._services = tuple(services)
        self._drain_seconds = drain_seconds
        self._health = _Health()
        self._is_serving = False
        open_to_all = (*unguarded, health.SERVICE_NAME)
        self.grpc = grpc.aio.server(
            interceptors=[
                OpenCalls([health.SERVICE_NAME]),
                CallInterceptor(methods_of(self._services), waiting=waiting, frequent=frequent),
                SecretInterceptor([secret, accepted], unguarded=open_to_all, further=further),
                *inner,
            ],
            options=server_options(address, connection_seconds=connection_seconds, message_bytes=message_bytes),
        )
        if tls is None or is_local(address):
            self.port = self.grpc.add_insecure_port(address)
        else:
            self.port = self.grpc.add_secure_port(address, tls.for_server())

    async def start(self) -> Self:
        """Listen; all services are reported NOT_SERVING until `set_serving`."""
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.grpc)
        reflection.enable_server_reflection((*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME), self.grpc)
        await self.set_serving(serving=False)
        await self.grpc.start()
        return self

    @property
    def is_serving(self) -> bool:
        """True while the services are reported as SERVING."""
        return self._is_serving

    async def set_serving(self, *, serving: bool) -> None:
        """Report all services as SERVING or NOT_SERVING."""
        self._is_serving = serving
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in ("", *self._services):
            await self._health.set(service, status)

    async def serve_until(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set; then refuse new calls, let calls in flight finish in `drain_seconds`, and end.

        Raises RuntimeError if gRPC has ended by itself, as it does when the path of a call is not UTF-8: the process
        has to be started again then.
        """
        # Never cancelled, because that would cancel the end of gRPC for all who wait for it.
        ended = asyncio.ensure_future(self.grpc.wait_for_termination())
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(stopped)
        await self.set_serving(serving=False)
        if not stop.is_set():
            raise RuntimeError("gRPC has ended by itself")
        await self.grpc.stop(self._drain_seconds)
        await ended


class _Health(health.aio.HealthServicer):
    """The health of the services, which anybody may ask for, but not watch.

    A watcher that does not read would hold the change of the health, and with it the start and the stop of the process.
    """

    async def Watch(self, request: object, context: Context) -> None:
        """Refuse."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "ask by Check")


def methods_of(services: Iterable[str]) -> Iterator[str]:
    """Yield the full names of all methods of the services, themselves given by full name."""
    for service in services:
        for method in descriptor_pool.Default().FindServiceByName(service).methods:
            yield f"/{service}/{method.name}"
