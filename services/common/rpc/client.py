"""The client's side of gRPC: channels that reconnect by themselves, and calls with a deadline."""

import json
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import SecretStr

from services.common.errors import Reason, ServiceError, Unavailable, from_rpc_error
from services.common.observability import request_id, tracing
from services.common.rpc.options import channel_options, is_local
from services.common.rpc.tls import Tls

Response = TypeVar("Response")

_HEALTH_SECONDS = 2.0
_RETRY = {
    "maxAttempts": 5,
    "initialBackoff": "0.1s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2,
    # A stopping server cancels calls that have just arrived. gRPC does not retry a call that the caller cancels.
    "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
}


def connect(
    address: str, *, tls: Tls | None = None, repeatable: dict[str, list[str]] | None = None
) -> grpc.aio.Channel:
    """Return a channel to `address` (`unix:PATH`, `HOST:PORT` or `dns:///NAME:PORT`); the caller closes it.

    Calls go in turn to all addresses of the name. Over a network, the channel uses mutual TLS if `tls` is given.
    `repeatable` has, by full service name, the idempotent methods: gRPC retries them by itself if the service is
    unavailable.
    """
    config: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
    names = [
        {"service": service, "method": method} for service, methods in (repeatable or {}).items() for method in methods
    ]
    if names:
        config["methodConfig"] = [{"name": names, "retryPolicy": _RETRY}]
    options: list[tuple[str, Any]] = [*channel_options(address), ("grpc.service_config", json.dumps(config))]
    if tls is None or is_local(address):
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, tls.for_channel(), options=options)


class Health(StrEnum):
    """The health that a service reports."""

    SERVING = "serving"
    NOT_SERVING = "not serving"
    NOT_ANSWERING = "not answering"


class ServiceClient:
    """A client of another service: a channel, which `close` closes, secrets to show, and a deadline for every call.

    `further` is a secret that is shown beside the one between services, and the metadata key under which it is.
    """

    def __init__(
        self,
        address: str,
        *,
        deadline: float,
        secret: SecretStr | None = None,
        further: tuple[str, SecretStr] | None = None,
        tls: Tls | None = None,
        repeatable: dict[str, list[str]] | None = None,
    ) -> None:
        self.channel = connect(address, tls=tls, repeatable=repeatable)
        self.deadline = deadline
        """The seconds within which each call is answered, unless it has its own deadline."""
        self._secret = secret
        self._further = further

    async def call(
        self,
        method: Callable[..., Awaitable[Response]],
        request: Message | bytes,
        *,
        detail: Message | None = None,
        deadline: float | None = None,
        wait_for_ready: bool = True,
        secret: SecretStr | None = None,
    ) -> Response:
        """Call a unary method of a stub on this peer's channel, waiting for the peer while it restarts.

        `request` is a message, or serialized bytes if the method takes those. Raises the `ServiceError` that the
        service raised; a detail of its status is read into `detail`. Raises `Unavailable` if the peer is unreachable
        until the deadline, or reports that it does not serve; without `wait_for_ready`, at once if it is unreachable.
        A `deadline`, in seconds, replaces the client's deadline, and a `secret` its secret.
        """
        timeout = self.deadline if deadline is None else deadline
        try:
            return await method(request, timeout=timeout, metadata=self.metadata(secret), wait_for_ready=wait_for_ready)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and await self.health("") is Health.NOT_SERVING:
                raise Unavailable(Reason.UNAVAILABLE, "an inner service lacks what it needs") from error
            raise self.error(error, detail) from error

    def error(self, error: grpc.aio.AioRpcError, detail: Message | None = None) -> ServiceError:
        """Rebuild the error that the service raised; see `call`."""
        never_connected = self.channel.get_state() is not grpc.ChannelConnectivity.READY
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and never_connected:
            return Unavailable(Reason.UNAVAILABLE, "an inner service does not answer")
        return from_rpc_error(error, detail)

    def metadata(self, secret: SecretStr | None = None) -> tuple[tuple[str, str], ...]:
        """Return the metadata of a call: the current request id and span, and the secrets as bearer tokens.

        A `secret` replaces that of the client.
        """
        metadata = [(request_id.METADATA_KEY, request_id.current())] if request_id.current() else []
        metadata.extend(tracing.metadata())
        if (shown := secret or self._secret) is not None:
            metadata.append(("authorization", f"Bearer {shown.get_secret_value()}"))
        if self._further is not None:
            key, further = self._further
            metadata.append((key, f"Bearer {further.get_secret_value()}"))
        return tuple(metadata)

    async def health(self, service: str) -> Health:
        """Return the health that the peer reports for the service of this full name, after at most 2 s."""
        stub: Any = health_pb2_grpc.HealthStub(self.channel)  # its type stubs lack its methods
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=_HEALTH_SECONDS)
        except grpc.aio.AioRpcError:
            return Health.NOT_ANSWERING
        serving = answer.status == health_pb2.HealthCheckResponse.SERVING
        return Health.SERVING if serving else Health.NOT_SERVING

    async def close(self) -> None:
        """Close the channel and end the calls on it."""
        await self.channel.close()
