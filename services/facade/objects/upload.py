"""Forwarding of uploads to storage (docs/protocol.md, "Basic transfer: upload action").

An upload is forwarded piece by piece; an object of more than one message is never in memory as a whole.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
from starlette.datastructures import Headers
from starlette.types import Receive
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason, ServiceError
from services.common.rpc.options import CHUNK_BYTES
from services.common.rpc.raw_bytes import BytesField
from services.common.rpc.streams import RequestStream, ending
from services.facade.auth.action_tokens import ActionGrant
from services.facade.clients.services import ServiceClients
from services.facade.clients.small_uploads import COMMIT_SECONDS
from services.facade.clients.streams import PAUSE_SECONDS, is_retryable
from services.facade.objects.shared_memory import PIECES, MemoryFile, SharedMemory
from services.facade.settings import FacadeSettings
from services.facade.web.error_reasons import invalid_reply
from services.facade.web.request_body import chunks

Piece = list[memoryview]
"""Some of an object's bytes, in the buffers in which they arrived."""

_END: Piece = []

_DATA = BytesField(pb.WriteObjectRequest, "data")
# A partial piece is forwarded after this time, because storage would take a slow client for a client that is gone.
_MAX_HOLD_SECONDS = 5.0


async def upload(
    clients: ServiceClients,
    memory: SharedMemory | None,
    grant: ActionGrant,
    headers: Headers,
    receive: Receive,
    settings: FacadeSettings,
) -> None:
    """Write the body of a request as the object of `grant`; it is durable when this returns.

    An object longer than one message goes through `memory` where storage shares it. An object of one message is
    retried within the deadline of storage's client where storage becomes unavailable; the client has to resend a longer
    object. Raises `InvalidArgument` before the body is read where its Content-Length is not the object's size, the
    errors of `request_body.chunks`, and the errors of StorageService.WriteObject.
    """
    length = headers.get("content-length")
    if length is not None and int(length) != grant.size:
        raise InvalidArgument(Reason.SIZE_MISMATCH, f"content-length: expected {grant.size}, got {length}")
    incoming = chunks(receive, settings.body_idle_seconds, settings.upload_min_bytes_per_second)
    body = until_too_many(incoming, grant.size)
    if grant.size > CHUNK_BYTES and memory and await _write_shared(clients, memory, grant, body):
        return None
    incoming_pieces = pieces(body)
    first = await anext(incoming_pieces, _END)
    second = await anext(incoming_pieces, _END)
    if second:
        await _write(clients, grant, _chain(first, second, incoming_pieces))
        return None
    whole = pb.WriteWholeObjectRequest(
        repository_id=grant.repository_id,
        oid=grant.oid,
        size=grant.size,
        data=b"".join(first),
        user_id=grant.user_id or 0,
    )
    deadline = time.monotonic() + clients.storage.deadline
    while True:
        try:
            return await clients.whole_objects.write(whole)
        except ServiceError as error:
            if not is_retryable(error) or time.monotonic() > deadline:
                raise
        await asyncio.sleep(PAUSE_SECONDS)


async def until_too_many(body: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """Yield the body, and stop after more than `size` bytes: storage refuses it then, so its end is not awaited."""
    async for data in body:
        yield data
        size -= len(data)
        if size < 0:
            return


async def pieces(body: AsyncIterator[bytes]) -> AsyncIterator[Piece]:
    """Yield the body in pieces of a message's largest size, or in smaller pieces where the client is slow."""
    held: Piece = []
    room = CHUNK_BYTES
    since = time.monotonic()
    async for data in body:
        rest = memoryview(data)
        while rest:
            held.append(rest[:room])
            rest = rest[room:]
            room -= len(held[-1])
            if not room or time.monotonic() - since > _MAX_HOLD_SECONDS:
                yield held
                held, room, since = [], CHUNK_BYTES, time.monotonic()
    if held:
        yield held


async def _chain(first: Piece, second: Piece, rest: AsyncIterator[Piece]) -> AsyncIterator[Piece]:
    yield first
    yield second
    async for piece in rest:
        yield piece


async def _write_shared(
    clients: ServiceClients, memory: SharedMemory, grant: ActionGrant, body: AsyncIterator[bytes]
) -> bool:
    """Write the body through shared memory; where storage does not share it, return False and leave the body unread."""
    async with memory.opened() as file:
        if file is None:
            return False
        call = clients.write_shared_object(metadata=clients.storage.metadata(), wait_for_ready=True)
        outgoing = RequestStream(call, clients.storage.deadline)
        header = pb.WriteSharedObjectRequest.Header(object=_header(grant), file=file.name)
        unanswered = 0

        async def free() -> None:
            nonlocal unanswered
            if unanswered == PIECES:
                await _reply(clients, call, clients.storage.deadline)
                unanswered -= 1

        with ending(call, clients.storage):
            await outgoing.send(pb.WriteSharedObjectRequest(header=header).SerializeToString())
            try:
                await _reply(clients, call, clients.storage.deadline)
            except ServiceError as error:
                if memory.is_refused(error):
                    return False
                raise
            await file.unlink()
            going = True
            async for piece in _filled(file, body, free):
                going = await outgoing.send(pb.WriteSharedObjectRequest(piece=piece).SerializeToString())
                if not going:
                    break
                unanswered += 1
            if going:
                await outgoing.end()
            # Where the call has ended, reading its reply raises the error that ended it.
            while not (await _reply(clients, call, COMMIT_SECONDS)).HasField("object"):
                pass
    return True


async def _filled(
    file: MemoryFile, body: AsyncIterator[bytes], free: Callable[[], Awaitable[None]]
) -> AsyncIterator[pb.WriteSharedObjectRequest.Piece]:
    """Write the body to a file, and yield each piece that is full or has waited for `_MAX_HOLD_SECONDS`.

    `free` returns when storage has copied the piece that is overwritten next.
    """
    since = time.monotonic()
    async for data in body:
        rest = memoryview(data)
        while rest:
            if file.is_empty:
                await free()
            rest = rest[file.fill(rest) :]
            if file.is_full or time.monotonic() - since > _MAX_HOLD_SECONDS:
                yield file.finish_piece()
                since = time.monotonic()
    if not file.is_empty:
        yield file.finish_piece()


async def _reply(
    clients: ServiceClients, call: grpc.aio.StreamStreamCall[bytes, pb.WriteSharedObjectResponse], seconds: float
) -> pb.WriteSharedObjectResponse:
    try:
        async with asyncio.timeout(seconds):
            reply = await call.read()
    except grpc.aio.AioRpcError as error:
        raise clients.storage.error(error) from error
    if not isinstance(reply, pb.WriteSharedObjectResponse):
        raise invalid_reply("WriteSharedObject", "the reply lacks the object")
    return reply


async def _write(clients: ServiceClients, grant: ActionGrant, pieces: AsyncIterator[Piece]) -> None:
    call = clients.write_object(metadata=clients.storage.metadata(), wait_for_ready=True)
    outgoing = RequestStream(call, clients.storage.deadline)
    with ending(call, clients.storage):
        going = await outgoing.send(pb.WriteObjectRequest(header=_header(grant)).SerializeToString())
        while going and (piece := await anext(pieces, _END)):
            going = await outgoing.send(_DATA.serialize(piece))
        if going:
            await outgoing.end()
        async with asyncio.timeout(COMMIT_SECONDS):
            reply = await call
    if not reply.HasField("object"):
        raise invalid_reply("WriteObject", "the reply lacks the object")


def _header(grant: ActionGrant) -> pb.WriteObjectRequest.Header:
    return pb.WriteObjectRequest.Header(
        repository_id=grant.repository_id, oid=grant.oid, size=grant.size, user_id=grant.user_id or 0
    )
