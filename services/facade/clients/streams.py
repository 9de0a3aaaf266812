"""When a stream to storage was interrupted by an outage, rather than refused."""

import grpc

from services.common.errors import ServiceError
from services.common.rpc.client import ServiceClient

PAUSE_SECONDS = 0.2
"""How long to wait before the next attempt."""

_INTERRUPTIONS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.DEADLINE_EXCEEDED)


def is_retryable(error: ServiceError) -> bool:
    """Tell whether another attempt may succeed: the service is away, is being stopped, or does not answer."""
    return error.status in _INTERRUPTIONS or error.reason == grpc.StatusCode.CANCELLED.name


def deadline_exceeded(peer: ServiceClient) -> ServiceError:
    """Return the error for a stream on which the peer was silent for too long."""
    nothing = grpc.aio.Metadata()
    return peer.error(
        grpc.aio.AioRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, nothing, nothing, details="nothing came in time")
    )
