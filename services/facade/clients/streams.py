"""Parts shared by the streams to and from storage: the errors worth a retry."""

import grpc

from services.common.errors import ServiceError

PAUSE_SECONDS = 0.2
"""The pause before a retry."""

_INTERRUPTIONS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.DEADLINE_EXCEEDED)


def is_retryable(error: ServiceError) -> bool:
    """Return whether a retry may succeed: the service is unavailable, is stopping, or does not answer."""
    return error.status in _INTERRUPTIONS or error.reason == grpc.StatusCode.CANCELLED.name
