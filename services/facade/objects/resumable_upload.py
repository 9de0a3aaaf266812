"""Forwarding of resumable uploads to storage (docs/protocol.md, "Resumable uploads").

Whatever was read when a connection breaks is handed to storage, which keeps it.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp
from starlette.datastructures import Headers
from starlette.types import Receive
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import DeadlineExceeded, InvalidArgument, Reason
from services.common.rpc.raw_bytes import BytesField
from services.common.rpc.streams import RequestStream, ending
from services.facade.auth.action_tokens import ActionGrant
from services.facade.clients.services import ServiceClients
from services.facade.clients.small_uploads import COMMIT_SECONDS
from services.facade.objects.upload import pieces, until_too_many
from services.facade.settings import FacadeSettings
from services.facade.web.error_reasons import ClientDisconnected
from services.facade.web.request_body import chunks

_DATA = BytesField(pb.AppendPartialUploadRequest, "data")
# Storage waits up to 20 s for an upload that goes on; the client waits 30 s for an answer (client-19).
_FIND_SECONDS = 25.0


class Progress(NamedTuple):
    """The kept bytes of an upload, and their expiry (Unix time); the size and None for an object that is held."""

    offset: int
    expires_at: int | None


async def find_progress(clients: ServiceClients, grant: ActionGrant) -> Progress:
    """Return the progress of the upload of a grant. Raises the errors of StorageService.GetPartialUpload."""
    request = pb.GetPartialUploadRequest(
        repository_id=grant.repository_id, oid=grant.oid, size=grant.size, user_id=grant.user_id or 0
    )
    reply = await clients.storage.call(clients.storage_stub.GetPartialUpload, request, deadline=_FIND_SECONDS)
    return _progress(reply.offset, reply.expires_at)


async def append(
    clients: ServiceClients,
    grant: ActionGrant,
    offset: int,
    headers: Headers,
    receive: Receive,
    settings: FacadeSettings,
) -> Progress:
    """Add the body of a request to the upload of a grant, after its first `offset` bytes, and return its progress.

    Where the body ends early, what has arrived is kept before the error is raised. Raises `InvalidArgument` before the
    body is read where its Content-Length exceeds the rest, the errors of `request_body.chunks`, and the errors of
    StorageService.AppendPartialUpload.
    """
    rest = grant.size - offset
    length = headers.get("content-length")
    if length is not None and int(length) > rest >= 0:
        raise InvalidArgument(Reason.SIZE_MISMATCH, f"content-length: expected at most {rest}, got {length}")
    body = _Interruptible(chunks(receive, settings.body_idle_seconds, settings.upload_min_bytes_per_second))
    call = clients.append_partial_upload(metadata=clients.storage.metadata(), wait_for_ready=True)
    outgoing = RequestStream(call, clients.storage.deadline)
    header = pb.AppendPartialUploadRequest.Header(
        repository_id=grant.repository_id, oid=grant.oid, size=grant.size, offset=offset, user_id=grant.user_id or 0
    )
    with ending(call, clients.storage):
        going = await outgoing.send(pb.AppendPartialUploadRequest(header=header).SerializeToString())
        if going:
            async for piece in pieces(until_too_many(body.chunks(), rest)):
                going = await outgoing.send(_DATA.serialize(piece))
                if not going:
                    break
        if going:
            await outgoing.end()
        async with asyncio.timeout(COMMIT_SECONDS):
            reply = await call
    if body.error is not None:
        raise body.error
    return _progress(reply.offset, reply.expires_at)


class _Interruptible:
    """A body that ends where its client is gone, silent or slow; `error` then says so."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self._body = body
        self.error: ClientDisconnected | DeadlineExceeded | None = None

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        try:
            async for data in self._body:
                yield data
        except (ClientDisconnected, DeadlineExceeded) as error:
            self.error = error


def _progress(offset: int, expires_at: Timestamp) -> Progress:
    seconds = expires_at.seconds
    return Progress(offset, seconds if seconds > time.time() else None)
