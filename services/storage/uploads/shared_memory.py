"""Uploads through shared memory: the bytes are in a file that the caller shares, and not in messages."""

import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.concurrency.uncancellable import run_in_thread
from services.common.errors import FailedPrecondition, InvalidArgument, Reason
from services.common.files import OwnedDescriptor
from services.common.rpc.options import SHARED_BYTES
from services.storage.uploads.stream import WriteRequest

_NAME = re.compile("[0-9a-f]{32}")

Requests = AsyncIterator[pb.WriteSharedObjectRequest]


class SharedMemoryFile:
    """The file of one upload. The owner calls `close` in any case."""

    def __init__(self) -> None:
        self._file = OwnedDescriptor()
        self._size = 0

    async def open(self, folder: Path | None, name: str) -> None:
        """Open the file of this name in a folder. Raises `FailedPrecondition` (MEMORY_NOT_SHARED)."""
        if folder is None or not _NAME.fullmatch(name) or not await run_in_thread(self._open, folder / name):
            raise FailedPrecondition(Reason.MEMORY_NOT_SHARED, "file: expected one of the folder that is shared")

    def read(self, piece: pb.WriteSharedObjectRequest.Piece) -> memoryview:
        """Return a copy of the present bytes of a piece. Raises `InvalidArgument` (MALFORMED_STREAM)."""
        if not self._file.is_open:
            raise InvalidArgument(Reason.MALFORMED_STREAM, "the first message: expected a header")
        data = b""
        if 0 <= piece.offset < self._size and 0 < piece.length <= SHARED_BYTES:
            # Not in a thread, because the file is in memory and the read waits for no disk.
            data = os.pread(self._file.number, piece.length, piece.offset)
        if not data or len(data) != piece.length:
            raise InvalidArgument(
                Reason.MALFORMED_STREAM,
                f"piece: expected 1 to {SHARED_BYTES} bytes of the file, got {piece.length} from {piece.offset} on",
            )
        return memoryview(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _open(self, path: Path) -> bool:
        try:
            # O_NONBLOCK, so that opening something else than a file, such as a FIFO, does not block.
            self._file.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return False
        size = self._file.regular_size()
        self._size = size or 0
        return size is not None


async def messages_of(
    requests: Requests, folder: Path | None, answer: Callable[[], Awaitable[None]]
) -> AsyncGenerator[WriteRequest]:
    """Yield the messages of WriteObject that these requests of WriteSharedObject stand for, and `answer` each.

    Raises what `SharedMemoryFile` raises.
    """
    file = SharedMemoryFile()
    try:
        async for request in requests:
            if request.WhichOneof("content") == "header":
                file.close()
                await file.open(folder, request.header.file)
                message: WriteRequest = pb.WriteObjectRequest(header=request.header.object)
            else:
                message = file.read(request.piece)
            await answer()
            yield message
            # Free the bytes before waiting for the next message.
            del message
    finally:
        file.close()
