"""Shared disk: direct reads of objects from the disk on which storage stores them."""

import math
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.concurrency.circuit_breaker import CircuitBreaker
from services.common.concurrency.uncancellable import run_in_thread
from services.common.errors import Reason, ServiceError
from services.common.files import OwnedDescriptor
from services.common.observability.logs import get_logger
from services.facade.auth.action_tokens import ActionGrant
from services.facade.clients.services import ServiceClients
from services.facade.clients.watch import watching
from services.facade.objects.cached_file import read_cached
from services.facade.objects.read_counts import REPORT_SECONDS, ReadCounts
from services.facade.objects.removal_feed import RemovalFeed
from services.facade.server.sendfile import FilePart
from services.facade.web.error_reasons import invalid_reply
from services.facade.web.ranges import ByteRange

# A client must read a whole piece within `body_idle_seconds`; a message of storage has the same size.
_PIECE_BYTES = 1024 * 1024
# Up to this size, reading the bytes and sending them with the head costs less than letting the kernel send them.
_SMALL_BYTES = 256 * 1024
_RETRY_SECONDS = 10.0
_LOOK_SECONDS = 10.0
_SUFFIX = re.compile(r"[0-9a-f]{16}")
_PATH = re.compile(r"objects/[0-9a-f]{2}/[0-9a-f]{2}/([0-9a-f]{64})(?:\.[0-9a-f]{16})?")

_log = get_logger(__name__)


class SharedDiskObject:
    """The file of an object; the caller calls `close` in any case, even if `open` fails."""

    def __init__(self, grant: ActionGrant, part: ByteRange) -> None:
        self._grant = grant
        self._part = part
        self._file = OwnedDescriptor()
        self._small: bytes | None = None

    async def open(self, folder: Path, paths: Sequence[str]) -> bool:
        """Open the first of these paths below a folder that has the whole object; return whether there is one."""
        return await run_in_thread(lambda: any(self._open_one(folder, path) for path in paths))

    async def pieces(self, *, by_kernel: bool) -> AsyncGenerator[bytes | FilePart, None]:
        """Yield the part of the object, in pieces of at most 1 MiB. Raises EOFError where the file has become shorter.

        With `by_kernel`, all pieces but that of a small part are `FilePart` instances, valid until `close`.
        """
        if self._small is not None:
            yield self._small
            return
        for offset in range(self._part.start, self._part.end, _PIECE_BYTES):
            count = min(_PIECE_BYTES, self._part.end - offset)
            if by_kernel:
                yield FilePart(self._file.number, offset, count)
            else:
                yield await run_in_thread(self._read, offset, count)

    async def close(self) -> None:
        """Close the file."""
        if self._file.is_open:
            # The last close of a removed file waits until the disk has freed it, so it runs in a thread.
            await run_in_thread(self._file.close)

    def _open_one(self, folder: Path, path: str) -> bool:
        found = _PATH.fullmatch(path)
        if found is None or found[1] != self._grant.oid:
            return False
        try:
            self._file.adopt(_open_below(folder, path))
            if self._file.regular_size() != self._grant.size:
                self._file.close()
                return False
            if (count := self._part.end - self._part.start) <= _SMALL_BYTES:
                self._small = self._read(self._part.start, count)
                self._file.close()
        except (OSError, EOFError):
            self._file.close()
            return False
        return True

    def _read(self, offset: int, count: int) -> bytes:
        data = os.pread(self._file.number, count, offset)
        if len(data) != count:
            raise EOFError(f"the file ends at {offset + len(data)}, expected {self._grant.size} bytes")
        return data


def _open_below(folder: Path, path: str) -> int:
    """Open a file below a folder without following links. Raises OSError."""
    *folders, name = path.split("/")
    at = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        for folder_name in folders:
            deeper = os.open(folder_name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = deeper
        # O_NONBLOCK: opening a file that is not regular, such as a FIFO, must not block.
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    finally:
        os.close(at)


@asynccontextmanager
async def shared_disk(
    folder: Path | None, clients: ServiceClients, removal_feed: RemovalFeed
) -> "AsyncIterator[SharedDisk | None]":
    """Yield the disk whose folder this process shares with storage, or None where `folder` is None."""
    if folder is None:
        yield None
        return
    reads = ReadCounts(clients)
    disk = SharedDisk(folder, clients, removal_feed, reads)
    try:
        async with watching(reads.report, "reads are not counted", every_seconds=REPORT_SECONDS):
            yield disk
    finally:
        await reads.report_last()
        disk.close()


class SharedDisk:
    """The folder of storage's objects, as this process sees it. Its owner closes it.

    Where an object is not at its reported location, storage sends the bytes, and a circuit breaker stops the use of the
    disk for ten seconds: storage may be older than this facade, store its objects elsewhere, or be on another host.
    """

    def __init__(
        self, folder: Path, clients: ServiceClients, removal_feed: RemovalFeed, read_counts: ReadCounts
    ) -> None:
        self._folder = folder
        self._clients = clients
        self._removals = removal_feed
        self._reads = read_counts
        self._breaker = CircuitBreaker(_RETRY_SECONDS)
        self._open_folder = OwnedDescriptor()
        self._looked_at = -math.inf

    def close(self) -> None:
        """Close the folder."""
        self._open_folder.close()

    def read_cached(self, grant: ActionGrant, part: ByteRange) -> bytearray | None:
        """Return a small part of an object, or None where reading it needs storage or would wait for the disk."""
        path = self._known_path(grant)
        count = part.end - part.start
        if not self._open_folder.is_open or path is None or count > _SMALL_BYTES:
            return None
        data = read_cached(self._open_folder.number, path, grant.size, part.start, count)
        if data is not None:
            self._reads.count(grant.repository_id, count)
        return data

    @asynccontextmanager
    async def opened(self, grant: ActionGrant, part: ByteRange) -> AsyncIterator[tuple[SharedDiskObject | None, bool]]:
        """Open the object; yield its file, or None where it is not here, and whether the part is counted as read.

        Calls StorageService.LocateObject unless the location is known, and raises the errors of that call.
        """
        file = SharedDiskObject(grant, part)
        try:
            if (path := self._known_path(grant)) and await file.open(self._folder, [path]):
                self._reads.count(grant.repository_id, part.end - part.start)
                await self._keep_folder()
                yield file, True
                return
            paths = await self._locate(grant, part)
            if not paths:
                yield None, False
            elif await file.open(self._folder, paths):
                await self._keep_folder()
                yield file, True
            else:
                self._breaker.trip()
                _log.warning("an object is not in the shared folder", folder=str(self._folder), oid=grant.oid)
                yield None, True
        finally:
            await file.close()

    def _known_path(self, grant: ActionGrant) -> str | None:
        """Return the path of an object that may be read without asking storage, else None."""
        place, oid = grant.place, grant.oid
        if place is None or not self._removals.allow(place) or not _SUFFIX.fullmatch(place.suffix):
            return None
        if self._breaker.is_open:
            return None
        if self._removals.is_bandwidth_limited and not self._reads.is_allowed(grant.repository_id):
            return None
        return f"objects/{oid[:2]}/{oid[2:4]}/{oid}.{place.suffix}"

    async def _locate(self, grant: ActionGrant, part: ByteRange) -> Sequence[str]:
        """Return the possible paths of an object below the folder; if any, storage has counted the part as read."""
        if self._breaker.is_open:
            return ()
        request = pb.LocateObjectRequest(
            repository_id=grant.repository_id, oid=grant.oid, offset=part.start, length=part.end - part.start
        )
        asked_at = time.monotonic()
        try:
            located = await self._clients.storage.call(self._clients.storage_stub.LocateObject, request)
        except ServiceError as error:
            if error.reason != Reason.UNIMPLEMENTED:
                raise
            self._breaker.trip()
            return ()
        if located.size != grant.size:
            raise invalid_reply("LocateObject", f"the object has {located.size} bytes, expected {grant.size}")
        if located.paths:
            self._reads.allow(grant.repository_id, asked_at=asked_at)
        else:
            self._breaker.trip()
        return located.paths

    async def _keep_folder(self) -> None:
        """Reopen the folder at most every 10 s, because another folder may be mounted in its place."""
        if time.monotonic() >= self._looked_at + _LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self.close()
            with suppress(OSError):
                await run_in_thread(self._open_folder.open, self._folder, os.O_PATH | os.O_DIRECTORY)
