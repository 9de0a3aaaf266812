"""Parts shared by the streams to and from storage: sending with a timeout, their end, and the errors worth a retry."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import grpc
from google.protobuf.message import Message

from services.common.errors import ServiceError
from services.common.rpc.client import ServiceClient

ReplyT = TypeVar("ReplyT", bound=Message)

PAUSE_SECONDS = 0.2
"""The pause before a retry."""

_INTERRUPTIONS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.DEADLINE_EXCEEDED)


def is_retryable(error: ServiceError) -> bool:
    """Return whether a retry may succeed: the service is unavailable, is stopping, or does not answer."""
    return error.status in _INTERRUPTIONS or error.reason == grpc.StatusCode.CANCELLED.name


@contextmanager
def ending(call: grpc.aio.Call, peer: ServiceClient) -> Iterator[None]:
    """Cancel the call at the end, and raise gRPC's errors as a `ServiceError`, TimeoutError as the peer's silence.

    Cancelling informs the peer that the client is gone, and changes nothing where the call has ended.
    """
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise peer.error(error) from error
    except TimeoutError as error:
        nothing = grpc.aio.Metadata()
        raise peer.error(
            grpc.aio.AioRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, nothing, nothing, details="nothing came in time")
        ) from error
    finally:
        call.cancel()


class RequestStream(Generic[ReplyT]):
    """The outgoing serialized messages of one call; raises TimeoutError where a message takes over `seconds`."""

    def __init__(
        self,
        call: grpc.aio.StreamUnaryCall[bytes, ReplyT] | grpc.aio.StreamStreamCall[bytes, ReplyT],
        seconds: float,
    ) -> None:
        self._call = call
        self._seconds = seconds

    async def send(self, message: bytes) -> bool:
        """Send a message; return False where the service has ended the call. The call's status says why."""
        return await self._do(self._write(message))

    async def end(self) -> bool:
        """Signal the end of the stream; return False where the service has ended the call, like `send`."""
        return await self._do(self._call.done_writing())

    async def _do(self, step: Coroutine[object, object, None]) -> bool:
        try:
            async with asyncio.timeout(self._seconds):
                await step
        except TimeoutError:
            raise
        except Exception:
            # gRPC raises several exception types here, some of them private; each means that the call has ended.
            return False
        return True

    async def _write(self, message: bytes) -> None:
        await self._call.wait_for_connection()
        # When a write fails because the service has ended the call, `call.write` overwrites the service's status, often
        # not read yet, with "internal error". The Cython call below it leaves the status alone.
        below = getattr(getattr(self._call, "_cython_call", None), "send_serialized_message", None)
        if below is None:
            await self._call.write(message)
        else:
            await below(message)
