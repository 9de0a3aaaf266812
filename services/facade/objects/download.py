"""Reads of objects, which outlive a restart of storage (docs/protocol.md, "Basic transfer: download action")."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

import grpc
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import ServiceError
from services.common.rpc.streams import ending
from services.facade.auth.action_tokens import ActionGrant
from services.facade.clients.services import ServiceClients
from services.facade.clients.streams import PAUSE_SECONDS, is_retryable
from services.facade.objects.shared_disk import SharedDisk
from services.facade.server.sendfile import FilePart
from services.facade.web.error_reasons import invalid_reply
from services.facade.web.ranges import ByteRange


async def read_object(
    clients: ServiceClients,
    shared_disk: SharedDisk | None,
    grant: ActionGrant,
    part: ByteRange,
    *,
    by_kernel: bool,
) -> AsyncGenerator[bytes | FilePart, None]:
    """Yield a part of the object in pieces of at most 1 MiB, from the shared disk if it is there, else from storage.

    Where storage becomes unavailable, reading resumes at the byte that it had reached, unless nothing arrives within
    the client's deadline. With `by_kernel`, pieces of a file are yielded unread; each is valid until the next is
    requested. Raises the errors of StorageService.ReadObject, EOFError and OSError; the bytes yielded by then are
    incomplete.
    """
    is_counted = False
    if shared_disk:
        async with shared_disk.opened(grant, part) as (file, is_counted):
            if file is not None:
                async with aclosing(file.pieces(by_kernel=by_kernel)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
    async with aclosing(_relayed(clients, grant, part, is_counted=is_counted)) as messages:
        async for data in messages:
            yield data


async def _relayed(
    clients: ServiceClients, grant: ActionGrant, part: ByteRange, *, is_counted: bool
) -> AsyncGenerator[bytes, None]:
    position = part.start
    deadline = time.monotonic() + clients.storage.deadline
    while True:
        try:
            rest = pb.ReadObjectRequest(
                repository_id=grant.repository_id,
                oid=grant.oid,
                offset=position,
                length=part.end - position,
                is_counted=is_counted,
            )
            async with aclosing(_attempt(clients, rest, grant.size)) as messages:
                async for data in messages:
                    position += len(data)
                    yield data
                    # The time that the client takes to read does not count.
                    deadline = time.monotonic() + clients.storage.deadline
        except ServiceError as error:
            if not is_retryable(error) or time.monotonic() > deadline:
                raise
        else:
            if position != part.end:
                raise invalid_reply("ReadObject", f"byte {position} instead of {part.end} was the last")
            return
        await asyncio.sleep(PAUSE_SECONDS)


async def _attempt(clients: ServiceClients, request: pb.ReadObjectRequest, size: int) -> AsyncGenerator[bytes, None]:
    call = clients.storage_stub.ReadObject(request, metadata=clients.storage.metadata(), wait_for_ready=True)
    with ending(call, clients.storage):
        header = await _next(call, clients.storage.deadline)
        if header is None or header.WhichOneof("content") != "header" or header.header.size != size:
            raise invalid_reply("ReadObject", "the reply lacks the header of an object of this size")
        left = request.length
        while (message := await _next(call, clients.storage.deadline)) is not None:
            left -= len(message.data)
            if left < 0:
                raise invalid_reply("ReadObject", "more came than was asked for")
            yield message.data


async def _next(
    call: grpc.aio.UnaryStreamCall[pb.ReadObjectRequest, pb.ReadObjectResponse], seconds: float
) -> pb.ReadObjectResponse | None:
    """Return the next message, or None at the end. Raises TimeoutError after `seconds`."""
    async with asyncio.timeout(seconds):
        message = await call.read()
    return message if isinstance(message, pb.ReadObjectResponse) else None
