"""Appending to partial uploads of a storage service, as the facade does it."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import grpc
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import from_rpc_error
from services.common.rpc.streams import RequestStream
from services.storage.api.storage_service import SERVICE_NAME
from tests.support.storage import StorageClient, chunks_of, oid_of
from tests.support.waiting import STEP_SECONDS


class Append:
    """One AppendPartialUpload that a test feeds."""

    def __init__(self, storage: StorageClient, header: pb.AppendPartialUploadRequest.Header) -> None:
        method: grpc.aio.StreamUnaryMultiCallable[bytes, pb.AppendPartialUploadResponse]
        method = storage.channel.stream_unary(
            f"/{SERVICE_NAME}/AppendPartialUpload",
            response_deserializer=pb.AppendPartialUploadResponse.FromString,
        )
        self.call = method(timeout=3 * STEP_SECONDS)
        self._outgoing = RequestStream(self.call, STEP_SECONDS)
        self._header = header

    async def begin(self) -> Self:
        """Send the header."""
        await self._outgoing.send(pb.AppendPartialUploadRequest(header=self._header).SerializeToString())
        return self

    async def send(self, data: bytes) -> bool:
        """Send bytes; return False where the service has ended the call."""
        for chunk in chunks_of(data):
            if not await self._outgoing.send(pb.AppendPartialUploadRequest(data=chunk).SerializeToString()):
                return False
        return True

    async def end(self) -> pb.AppendPartialUploadResponse:
        """End the stream, and return the answer."""
        await self._outgoing.end()
        return await self.call

    async def break_off(self) -> None:
        """Cancel the call, as a process does that ends."""
        self.call.cancel()
        await asyncio.wait({asyncio.ensure_future(self._ended())})

    async def _ended(self) -> None:
        try:
            await self.call
        except (asyncio.CancelledError, grpc.aio.AioRpcError):
            return


@dataclass(frozen=True)
class PartialUpload:
    """The upload of an object by a user to a repository."""

    storage: StorageClient
    data: bytes
    repository_id: int = 1
    user_id: int = 0
    oid: str = ""

    @property
    def named(self) -> str:
        """The oid: that of the data, unless the test has another."""
        return self.oid or oid_of(self.data)

    async def begin(self, offset: int) -> Append:
        """Begin to append."""
        header = pb.AppendPartialUploadRequest.Header(
            repository_id=self.repository_id,
            oid=self.named,
            size=len(self.data),
            offset=offset,
            user_id=self.user_id,
        )
        return await Append(self.storage, header).begin()

    async def append(self, start: int, end: int) -> pb.AppendPartialUploadResponse:
        """Append these of the data, in a call of their own."""
        call = await self.begin(start)
        await call.send(self.data[start:end])
        return await call.end()

    async def append_all(self, cuts: Iterable[int]) -> None:
        """Append all, in calls that end at each of `cuts`."""
        start = 0
        for end in (*cuts, len(self.data)):
            answer = await self.append(start, end)
            assert answer.offset == end
            start = end

    async def state(self) -> pb.GetPartialUploadResponse:
        """Ask how much is kept."""
        request = pb.GetPartialUploadRequest(
            repository_id=self.repository_id, oid=self.named, size=len(self.data), user_id=self.user_id
        )
        return await self.storage.stub.GetPartialUpload(request, timeout=3 * STEP_SECONDS)

    async def offset(self) -> int:
        """Ask how many bytes are kept."""
        return (await self.state()).offset

    async def refusal(self, start: int, end: int) -> tuple[str, str]:
        """Append bytes, and return the reason for which that is refused, and the metadata `offset`."""
        try:
            await self.append(start, end)
        except grpc.aio.AioRpcError as error:
            refused = from_rpc_error(error)
            return refused.reason, refused.metadata.get("offset", "")
        raise AssertionError("nothing was refused")
