"""An object on its way from storage (protocol: "Basic transfer: download action"): a restart of storage is not seen."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

import grpc
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import ServiceError
from services.facade.action_tokens import Permit
from services.facade.outages import PAUSE_SECONDS, is_interruption, overdue
from services.facade.peers import Peers
from services.facade.ranges import Slice
from services.facade.reasons import invalid_reply


async def read(peers: Peers, permit: Permit, part: Slice, *, rpc_seconds: float) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a part of the object, in messages of at most 1 MiB.

    Where storage goes away, the reading goes on from the byte that it had reached, unless nothing comes for
    `rpc_seconds`. Raises what StorageService.ReadObject says; then what was yielded is not the whole part.
    """
    position = part.start
    deadline = time.monotonic() + rpc_seconds
    while True:
        try:
            async with aclosing(_attempt(peers, permit, Slice(position, part.end), rpc_seconds)) as messages:
                async for data in messages:
                    position += len(data)
                    yield data
                    # What the client takes to read is its own affair.
                    deadline = time.monotonic() + rpc_seconds
        except ServiceError as error:
            if not is_interruption(error) or time.monotonic() > deadline:
                raise
        else:
            if position != part.end:
                raise invalid_reply("ReadObject", f"byte {position} instead of {part.end} was the last")
            return
        await asyncio.sleep(PAUSE_SECONDS)


async def _attempt(peers: Peers, permit: Permit, part: Slice, rpc_seconds: float) -> AsyncGenerator[bytes, None]:
    request = pb.ReadObjectRequest(
        repository_id=permit.repository_id, oid=permit.oid, offset=part.start, length=part.end - part.start
    )
    call = peers.storage_stub.ReadObject(request, metadata=peers.storage.metadata(), wait_for_ready=True)
    try:
        header = await _next(call, rpc_seconds)
        if header is None or header.WhichOneof("content") != "header" or header.header.size != permit.size:
            raise invalid_reply("ReadObject", "the reply lacks the header of an object of this size")
        left = part.end - part.start
        while (message := await _next(call, rpc_seconds)) is not None:
            left -= len(message.data)
            if left < 0:
                raise invalid_reply("ReadObject", "more came than was asked for")
            yield message.data
    except grpc.aio.AioRpcError as error:
        raise peers.storage.error(error) from error
    except TimeoutError as error:
        raise overdue(peers.storage) from error
    finally:
        call.cancel()


async def _next(
    call: grpc.aio.UnaryStreamCall[pb.ReadObjectRequest, pb.ReadObjectResponse], seconds: float
) -> pb.ReadObjectResponse | None:
    """Return the next message, or None at the end."""
    async with asyncio.timeout(seconds):
        message = await call.read()
    return message if isinstance(message, pb.ReadObjectResponse) else None
