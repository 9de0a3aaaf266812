"""Calls that send a stream: messages with a timeout, their end, and the answers that come after them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import grpc
from google.protobuf.message import Message

from services.common.errors import DeadlineExceeded, Reason
from services.common.rpc.client import ServiceClient

ReplyT = TypeVar("ReplyT", bound=Message)
MessageT = TypeVar("MessageT", bound=Message)

_SEND_SECONDS = 60.0


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

    async def connected(self) -> bool:
        """Wait until the service is there; return False where the service has ended the call, like `send`."""
        return await self._do(self._call.wait_for_connection())

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


async def exchange(
    client: ServiceClient,
    method: str,
    messages: AsyncIterator[Message],
    response: type[ReplyT],
    *,
    answer_seconds: float,
) -> AsyncGenerator[ReplyT, None]:
    """Send all messages to the method of this full name, and yield the responses, which come after their end.

    Raises the `ServiceError` that the service raises, also amid the messages; `DeadlineExceeded` if a message is not
    taken, or no response comes within `answer_seconds`; and what `messages` raises.
    """
    started: grpc.aio.StreamStreamMultiCallable[bytes, ReplyT] = client.channel.stream_stream(
        method, response_deserializer=response.FromString
    )
    call = started(metadata=client.metadata(), wait_for_ready=True)
    outgoing = RequestStream(call, _SEND_SECONDS)
    with ending(call, client):
        # The first message is asked for only when it can leave, because it may tell of a time that has passed.
        if await outgoing.connected():
            async for message in messages:
                if not await outgoing.send(message.SerializeToString()):
                    break
            else:
                await outgoing.end()
        while True:
            async with asyncio.timeout(answer_seconds):
                answer = await call.read()
            if not isinstance(answer, response):
                return
            yield answer


async def within(messages: AsyncIterator[MessageT], seconds: float) -> AsyncIterator[MessageT]:
    """Yield messages. Raises `DeadlineExceeded` if none comes for `seconds`."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                message = await anext(messages, None)
        except TimeoutError as error:
            raise DeadlineExceeded(Reason.DEADLINE_EXCEEDED, f"no message came for {seconds:g} s") from error
        if message is None:
            return
        yield message
