"""The health of services, as they tell it over gRPC."""

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.waiting import START_SECONDS, STEP_SECONDS, until

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


async def health(channel: grpc.aio.Channel, service: str = "") -> int:
    """Return what a server says of one of its services, or of itself."""
    stub = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service=service)
    answer = await stub.Check(request, timeout=STEP_SECONDS)  # type: ignore[attr-defined] # the types lack it
    return int(answer.status)


async def is_serving(channel: grpc.aio.Channel, service: str = "") -> bool:
    """Tell whether a server is there, and says that it is SERVING."""
    try:
        return await health(channel, service) == SERVING
    except grpc.aio.AioRpcError:
        return False


async def wait_serving(channel: grpc.aio.Channel, service: str = "") -> None:
    """Wait until a server is there, and says that it is SERVING."""
    await until(lambda: is_serving(channel, service), "the service is SERVING", seconds=START_SECONDS)
