"""Objects read where storage keeps them, on a disk that this process shares with it."""

import os
import re
import stat
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import Reason, ServiceError
from services.common.logs import get_logger
from services.common.undivided import in_thread
from services.facade.action_tokens import Permit
from services.facade.peers import Peers
from services.facade.ranges import Slice
from services.facade.reasons import invalid_reply

# What one turn takes to send: so much a client must read within `body_idle_seconds`, as of a message of storage's.
_PIECE_BYTES = 1024 * 1024
# Up to here, to read the bytes and to send them with the head costs less than to let the kernel send them.
_SMALL_BYTES = 256 * 1024
_PAUSE_SECONDS = 10.0
_PATH = re.compile(r"objects/[0-9a-f]{2}/[0-9a-f]{2}/([0-9a-f]{64})(?:\.[0-9a-f]{16})?")

_log = get_logger(__name__)


@dataclass(frozen=True)
class FilePart:
    """Bytes of an open file, by its descriptor, for the kernel to send."""

    file: int
    offset: int
    count: int


class SharedFile:
    """An object's file. `open` begins, and `close` ends it in any case."""

    def __init__(self, permit: Permit, part: Slice) -> None:
        self._permit = permit
        self._part = part
        self._descriptor: int | None = None
        self._small: bytes | None = None

    async def open(self, folder: Path, paths: Sequence[str]) -> bool:
        """Open the first of these paths below a folder at which the whole object lies; tell whether there is one."""
        return await in_thread(self._open, folder, paths)

    async def pieces(self, *, by_kernel: bool) -> AsyncGenerator[bytes | FilePart, None]:
        """Yield the part of the object, in pieces of at most 1 MiB. Raises EOFError where the file has become shorter.

        With `by_kernel` most come as a `FilePart`, which is good until `close`.
        """
        if self._small is not None:
            yield self._small
            return
        for offset in range(self._part.start, self._part.end, _PIECE_BYTES):
            count = min(_PIECE_BYTES, self._part.end - offset)
            yield FilePart(self._opened, offset, count) if by_kernel else await in_thread(self._read, offset, count)

    async def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            # The last to close a file that was removed waits until the disk has it back.
            await in_thread(self._close)

    def _open(self, folder: Path, paths: Sequence[str]) -> bool:
        return any(self._open_one(folder, path) for path in paths)

    def _open_one(self, folder: Path, path: str) -> bool:
        found = _PATH.fullmatch(path)
        if found is None or found[1] != self._permit.oid:
            return False
        try:
            self._descriptor = _open_below(folder, path)
            status = os.fstat(self._descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size != self._permit.size:
                self._close()
                return False
            if (count := self._part.end - self._part.start) <= _SMALL_BYTES:
                self._small = self._read(self._part.start, count)
                self._close()
        except (OSError, EOFError):
            self._close()
            return False
        return True

    @property
    def _opened(self) -> int:
        if self._descriptor is None:
            raise ValueError("the file is not open")
        return self._descriptor

    def _read(self, offset: int, count: int) -> bytes:
        data = os.pread(self._opened, count, offset)
        if len(data) != count:
            raise EOFError(f"the file ends at {offset + len(data)}, expected {self._permit.size} bytes")
        return data

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _open_below(folder: Path, path: str) -> int:
    """Open a file below a folder, by way of folders alone: no link is followed. Raises OSError."""
    *folders, name = path.split("/")
    at = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        for each in folders:
            deeper = os.open(each, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = deeper
        # What is no regular file must not hold up its opening.
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    finally:
        os.close(at)


class SharedDisk:
    """The folder of storage's objects, as this process sees it.

    Where it did not have what was asked for, storage sends the bytes, and is not asked again for ten seconds where an
    object lies: it may be older than this facade, keep its objects elsewhere, or be on another host.
    """

    def __init__(self, folder: Path, peers: Peers) -> None:
        self._folder = folder
        self._peers = peers
        self._paused_until = 0.0

    async def locate(self, permit: Permit, part: Slice) -> Sequence[str]:
        """Return the paths below the folder at which an object may lie; then storage has counted the part as read.

        Raises what StorageService.LocateObject says.
        """
        if time.monotonic() < self._paused_until:
            return ()
        request = pb.LocateObjectRequest(
            repository_id=permit.repository_id, oid=permit.oid, offset=part.start, length=part.end - part.start
        )
        try:
            located = await self._peers.objects.locate(request)
        except ServiceError as error:
            if error.reason != Reason.UNIMPLEMENTED:
                raise
            self._pause()
            return ()
        if located.size != permit.size:
            raise invalid_reply("LocateObject", f"the object has {located.size} bytes, expected {permit.size}")
        if not located.paths:
            self._pause()
        return located.paths

    @asynccontextmanager
    async def opened(self, paths: Sequence[str], permit: Permit, part: Slice) -> AsyncIterator[SharedFile | None]:
        """Open the object at one of these paths; yield None where it is at none."""
        file = SharedFile(permit, part)
        try:
            if await file.open(self._folder, paths):
                yield file
            else:
                self._pause()
                _log.warning("an object is not in the shared folder", folder=str(self._folder), oid=permit.oid)
                yield None
        finally:
            await file.close()

    def _pause(self) -> None:
        self._paused_until = time.monotonic() + _PAUSE_SECONDS
