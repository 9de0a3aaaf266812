"""The message stream of an AppendPartialUpload: a header and then data, read without losing what has arrived."""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import DeadlineExceeded, InvalidArgument, Reason
from services.common.rpc.raw_bytes import BytesField
from services.storage import validation
from services.storage.index.partial_uploads import PartialKey
from services.storage.uploads.stream import bounded

APPENDED = BytesField(pb.AppendPartialUploadRequest, "data")
"""The parser of the messages of `AppendStream`."""

AppendRequest = pb.AppendPartialUploadRequest | memoryview

_NOTHING = memoryview(b"")


class AppendHeader(NamedTuple):
    """The announcement of bytes that follow the first `offset` bytes of an object."""

    key: PartialKey
    offset: int


class AppendStream:
    """Reads the messages. Its owner closes it.

    A stream that its sender breaks off ends like one that its sender ends: the bytes say what is missing.
    """

    def __init__(self, messages: AsyncIterator[AppendRequest], idle_seconds: float) -> None:
        self._messages = messages
        self._idle_seconds = idle_seconds
        self._coming: asyncio.Task[AppendRequest | None] | None = None
        self._asked_at = 0.0
        self._rest = _NOTHING

    async def header(self) -> AppendHeader:
        """Read the first message. Raises `InvalidArgument` if it is not a header, or if a field is malformed."""
        message = await self._next(self._idle_seconds)
        if not isinstance(message, pb.AppendPartialUploadRequest) or message.WhichOneof("content") != "header":
            raise InvalidArgument(Reason.MALFORMED_STREAM, "the first message: expected a header")
        header = message.header
        key = partial_key(header)
        offset = validation.not_negative("offset", header.offset)
        if offset > key.size:
            raise InvalidArgument(Reason.INVALID_FIELD, f"upload-offset: expected at most {key.size}, got {offset}")
        return AppendHeader(key, offset)

    async def read(self, most: int, *, seconds: float | None = None) -> memoryview:
        """Return up to `most` of the bytes that come next; none at the end of the stream.

        Raises TimeoutError if nothing comes for `seconds`, after which it may be called again; `DeadlineExceeded` if
        nothing comes for `idle_seconds`; `InvalidArgument` if a message is not data, or is too long.
        """
        while not self._rest:
            message = await self._next(self._idle_seconds if seconds is None else seconds)
            if message is None:
                return _NOTHING
            self._rest = memoryview(bounded(message if isinstance(message, memoryview) else _data_of(message)))
        taken, self._rest = self._rest[:most], self._rest[most:]
        return taken

    async def close(self) -> None:
        """Stop reading."""
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.wait({self._coming})

    async def _next(self, seconds: float) -> AppendRequest | None:
        loop = asyncio.get_running_loop()
        if self._coming is None:
            # A task, because gRPC cannot read on after a read was cancelled.
            self._coming, self._asked_at = asyncio.create_task(self._receive()), loop.time()
        idle_until = self._asked_at + self._idle_seconds
        done, _ = await asyncio.wait({self._coming}, timeout=min(seconds, max(0.0, idle_until - loop.time())))
        if not done:
            if loop.time() < idle_until:
                raise TimeoutError
            raise DeadlineExceeded(Reason.DEADLINE_EXCEEDED, f"no message came for {self._idle_seconds:g} s")
        received, self._coming = self._coming, None
        # gRPC cancels the read of a call that is cancelled.
        return None if received.cancelled() else received.result()

    async def _receive(self) -> AppendRequest | None:
        return await anext(self._messages, None)


def partial_key(named: pb.AppendPartialUploadRequest.Header | pb.GetPartialUploadRequest) -> PartialKey:
    """Return the partial upload that a message names. Raises `InvalidArgument` for a malformed field."""
    return PartialKey(
        repository_id=validation.repository_id(named.repository_id),
        oid=validation.oid(named.oid),
        size=validation.not_negative("size", named.size),
        user_id=validation.not_negative("user_id", named.user_id),
    )


def _data_of(message: pb.AppendPartialUploadRequest) -> bytes:
    if message.WhichOneof("content") != "data":
        raise InvalidArgument(Reason.MALFORMED_STREAM, "a message after the first: expected data")
    return message.data
