"""The message stream of an upload: a header and then data, with a timeout for silence."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import DeadlineExceeded, InvalidArgument, Reason
from services.common.rpc.options import CHUNK_BYTES
from services.common.rpc.raw_bytes import BytesField
from services.storage import validation
from services.storage.backends.base import Chunk

DATA = BytesField(pb.WriteObjectRequest, "data")
"""The parser of the messages of `UploadStream`."""

WriteRequest = pb.WriteObjectRequest | memoryview


@dataclass(frozen=True)
class UploadHeader:
    """The announcement of an upload."""

    repository_id: int
    oid: str
    size: int
    user_id: int | None = None
    """The user who brings it; None if the caller did not tell."""


class UploadStream:
    """Reads the messages, each with at most `max_bytes`. A silence of `idle_seconds` raises `DeadlineExceeded`."""

    def __init__(
        self, messages: AsyncIterator[WriteRequest], idle_seconds: float, *, max_bytes: int = CHUNK_BYTES
    ) -> None:
        self._messages = messages
        self._idle_seconds = idle_seconds
        self._max_bytes = max_bytes

    async def header(self) -> UploadHeader:
        """Read the first message. Raises `InvalidArgument` if it is not a header, or if a field is malformed."""
        message = await self._next()
        if not isinstance(message, pb.WriteObjectRequest) or message.WhichOneof("content") != "header":
            raise InvalidArgument(Reason.MALFORMED_STREAM, "the first message: expected a header")
        return header_of(message.header)

    async def chunks(self) -> AsyncGenerator[Chunk]:
        """Read the other messages. Raises `InvalidArgument` if a message is not data, or is too long."""
        while (message := await self._next()) is not None:
            yield bounded(message if isinstance(message, memoryview) else _data_of(message), self._max_bytes)
            # Free the bytes before waiting for the next message.
            del message

    async def _next(self) -> WriteRequest | None:
        try:
            async with asyncio.timeout(self._idle_seconds):
                return await anext(self._messages, None)
        except TimeoutError as error:
            raise DeadlineExceeded(Reason.DEADLINE_EXCEEDED, f"no message came for {self._idle_seconds:g} s") from error


def _data_of(message: pb.WriteObjectRequest) -> bytes:
    if message.WhichOneof("content") != "data":
        raise InvalidArgument(Reason.MALFORMED_STREAM, "a message after the first: expected data")
    return message.data


def header_of(
    header: pb.WriteObjectRequest.Header | pb.WriteWholeObjectRequest | pb.ConfirmObjectRequest,
) -> UploadHeader:
    """Return the announcement of an upload. Raises `InvalidArgument` for a malformed field."""
    return UploadHeader(
        repository_id=validation.repository_id(header.repository_id),
        oid=validation.oid(header.oid),
        size=validation.not_negative("size", header.size),
        user_id=validation.user_id(header.user_id),
    )


def bounded(data: Chunk, max_bytes: int = CHUNK_BYTES) -> Chunk:
    """Return the bytes of a message. Raises `InvalidArgument` if they exceed `max_bytes`."""
    if len(data) > max_bytes:
        raise InvalidArgument(Reason.MALFORMED_STREAM, f"data: expected at most {max_bytes} bytes, got {len(data)}")
    return data
