"""Shared memory: files through which uploads go to a storage service on the same host."""

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.concurrency.circuit_breaker import CircuitBreaker
from services.common.concurrency.uncancellable import run_in_thread
from services.common.errors import Reason, ServiceError
from services.common.files import OwnedDescriptor
from services.common.observability.logs import get_logger
from services.common.rpc.options import CHUNK_BYTES, SHARED_BYTES

PIECES = 2
"""The number of pieces that a file has room for: one is filled while storage copies the other."""

# Larger pieces take less CPU time per byte. With more uploads than cores their memory counts more: later files have
# smaller pieces, and beyond `_FILES` files an upload gets no shared memory.
_LARGE_FILES = 4
_FILES = 16
_RETRY_SECONDS = 10.0

_NOT_SHARED = (Reason.MEMORY_NOT_SHARED, Reason.UNIMPLEMENTED)

_log = get_logger(__name__)


class MemoryFile:
    """The file of one upload, with room for `PIECES` pieces; the caller calls `close` even if `make` fails."""

    def __init__(self, folder: Path, piece_bytes: int) -> None:
        self.name = secrets.token_hex(16)
        self._path = folder / self.name
        self._piece_bytes = piece_bytes
        self._file = OwnedDescriptor()
        self._offset = 0
        self._filled = 0

    async def make(self) -> None:
        """Create the file. Raises OSError, also where there is no memory for it."""
        await run_in_thread(self._make)

    @property
    def is_empty(self) -> bool:
        """True while the current piece has no bytes."""
        return not self._filled

    @property
    def is_full(self) -> bool:
        """True while the current piece has no room."""
        return self._filled == self._piece_bytes

    def fill(self, data: memoryview) -> int:
        """Write to the current piece as many of the bytes as it has room for; return their number.

        The piece overwrites the bytes of the piece `PIECES` before it.
        """
        # The write never blocks: the memory was allocated when the file was created, and no disk is behind it.
        count = os.pwrite(self._file.number, data[: self._piece_bytes - self._filled], self._offset + self._filled)
        self._filled += count
        return count

    def finish_piece(self) -> pb.WriteSharedObjectRequest.Piece:
        """Return the offset and the length of the current piece, and begin the next."""
        piece = pb.WriteSharedObjectRequest.Piece(offset=self._offset, length=self._filled)
        self._offset = (self._offset + self._piece_bytes) % (PIECES * self._piece_bytes)
        self._filled = 0
        return piece

    async def unlink(self) -> None:
        """Remove the name; a process that has the file open can still use it."""
        await run_in_thread(self._path.unlink, missing_ok=True)

    async def close(self) -> None:
        """Close the file and remove its name."""
        if self._file.is_open:
            await run_in_thread(self._close)

    def _make(self) -> None:
        self._file.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.posix_fallocate(self._file.number, 0, PIECES * self._piece_bytes)

    def _close(self) -> None:
        self._path.unlink(missing_ok=True)
        self._file.close()


class SharedMemory:
    """The shared folder, as this process sees it.

    Where storage does not see the same folder, uploads go in messages, and a circuit breaker stops the use of the
    folder for ten seconds: storage may be older than this facade, or on another host.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = 0
        self._breaker = CircuitBreaker(_RETRY_SECONDS)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[MemoryFile | None]:
        """Create a file for an upload; yield None where the upload has to do without shared memory."""
        if self._files == _FILES or self._breaker.is_open:
            yield None
            return
        file = MemoryFile(self._folder, SHARED_BYTES if self._files < _LARGE_FILES else CHUNK_BYTES)
        self._files += 1
        try:
            yield file if await self._is_made(file) else None
        finally:
            self._files -= 1
            await file.close()

    def is_refused(self, error: ServiceError) -> bool:
        """Return whether storage refuses an upload only because it shares no memory, and trip the breaker if so."""
        if error.reason not in _NOT_SHARED:
            return False
        self._pause(error.message)
        return True

    async def _is_made(self, file: MemoryFile) -> bool:
        try:
            await file.make()
        except OSError as error:
            self._pause(str(error))
            return False
        return True

    def _pause(self, why: str) -> None:
        self._breaker.trip()
        _log.warning("uploads do without shared memory", folder=str(self._folder), why=why)
