"""Appending to a partial upload: bytes are kept in parts as they arrive, whatever becomes of the connection."""

import asyncio
from datetime import datetime
from typing import NamedTuple

from services.common.concurrency.uncancellable import run_to_completion
from services.common.errors import InvalidArgument, Reason, ServiceError
from services.common.rpc.log_fields import add_log_fields
from services.storage import metrics
from services.storage.backends.base import Chunk, Upload
from services.storage.capacity.space import Reservation
from services.storage.context import StorageContext
from services.storage.index.contents import BlobLocation
from services.storage.index.partial_uploads import Part, offset_mismatch
from services.storage.objects.partial_upload import Kept, complete, is_held, require_enabled
from services.storage.uploads.append_stream import AppendHeader, AppendStream
from services.storage.uploads.checksum import ChecksumVerifier
from services.storage.uploads.commit import commit_own
from services.storage.uploads.fanout import UploadTarget
from services.storage.uploads.lease import PartialUploadLease
from services.storage.uploads.pending import pending_uploads
from services.storage.uploads.stream import UploadHeader

_PART_BYTES = 32 * 1024 * 1024
_MAX_FULL_PARTS = 1_000
# Less than a lease: what a silent client has sent is kept before another call can take the upload.
_SILENT_SECONDS = 4.0


def part_bytes(size: int) -> int:
    """Return the bytes of a full part of an object of `size` bytes: what a process that is killed loses at most."""
    return max(_PART_BYTES, -(-size // _MAX_FULL_PARTS))


async def append_partial_upload(context: StorageContext, stream: AppendStream) -> Kept:
    """Receive a header and bytes, and return what is kept now. Raises what AppendPartialUpload documents.

    A cancellation ends the stream; what has arrived is kept before it is raised.
    """
    header = await stream.header()
    require_enabled(context)
    key = header.key
    add_log_fields(repository_id=key.repository_id, oid=key.oid, objects=1)
    if await is_held(context, key):
        if header.offset != key.size:
            raise offset_mismatch(key.size, header.offset)
        return Kept(key.size)
    await context.quota.check(key.repository_id)
    user_id = key.user_id or None
    async with context.reservations.admitted(key.repository_id, key.oid, key.size, user_id=user_id) as room:
        appended = await run_to_completion(_append(context, header, stream))
        if appended.offset < key.size:
            # The bytes that have come count by themselves.
            room.is_needed = False
            return Kept(appended.offset, appended.expires_at)
        if not appended.is_committed:
            await complete(context, key)
    return Kept(key.size)


async def _append(context: StorageContext, header: AppendHeader, stream: AppendStream) -> "_Appended":
    key = header.key
    rest = key.size - header.offset
    async with PartialUploadLease.take(context, key, offset=header.offset) as lease:
        if header.offset:
            await lease.require_few_parts(header.offset)
        if not _is_whole(header.offset, key.size):
            # The parts and the object are there at the same time, for a moment.
            await context.space.require(rest + key.size)
        async with context.space.reserve(rest) as reservation:
            return await _Appending(context, header, lease, stream, reservation).run()


def _is_whole(start: int, size: int) -> bool:
    """Return whether the part that begins at `start` has the whole object, and can become its blob."""
    return start == 0 and size <= part_bytes(size)


class _Appended(NamedTuple):
    """The result of one call: the bytes that are kept now; with `is_committed`, the object is held already."""

    offset: int
    expires_at: datetime | None
    is_committed: bool


class _Appending:
    """One call that appends, and that has the lease."""

    def __init__(
        self,
        context: StorageContext,
        header: AppendHeader,
        lease: PartialUploadLease,
        stream: AppendStream,
        reservation: Reservation,
    ) -> None:
        key = header.key
        self._context = context
        self._header = UploadHeader(key.repository_id, key.oid, key.size, key.user_id or None)
        self._lease = lease
        self._stream = stream
        self._reservation = reservation
        self._offset = header.offset
        self._bytes_in = 0
        self._expires_at: datetime | None = None
        self._is_committed = False
        self._broken: ServiceError | None = None

    async def run(self) -> _Appended:
        """Add parts until the stream ends, or all bytes are there; then raise the error of the stream, if any."""
        size = self._header.size
        while self._offset < size and (first := await self._read(size - self._offset)):
            await self._receive_part(first)
        if self._offset == size and self._broken is None and await self._read(1):
            raise InvalidArgument(Reason.SIZE_MISMATCH, f"expected {size} bytes, got more")
        if self._broken is not None:
            raise self._broken
        return _Appended(self._offset, self._expires_at, self._is_committed)

    async def _read(self, most: int, *, seconds: float | None = None) -> Chunk:
        """Return bytes that come next; none at the end, after an error of the stream, and after `seconds` of silence.

        The error is for `run`, because what has arrived before it is kept.
        """
        try:
            return await self._stream.read(most, seconds=seconds)
        except TimeoutError:
            return b""
        except ServiceError as error:
            self._broken = error
            return b""

    async def _receive_part(self, chunk: Chunk) -> None:
        """Receive a part that begins with `chunk`, and keep it; what it lacks when it ends is for the next one."""
        size = self._header.size
        length = min(part_bytes(size), size - self._offset)
        tally = ChecksumVerifier(self._header.oid, size) if _is_whole(self._offset, size) else None
        async with pending_uploads(self._context, [self._header], with_replicas=False) as [targets]:
            if isinstance(targets, ServiceError):
                raise targets
            [target] = targets
            count = 0
            async with target.store.backend.create(target.name, length) as upload:
                while chunk:
                    await self._write(chunk, upload, tally)
                    count += len(chunk)
                    chunk = await self._read(length - count, seconds=_SILENT_SECONDS) if count < length else b""
                is_object = tally is not None and count == size
                if tally is not None and is_object:
                    _verify(tally)
                self._lease.is_busy = True
                await upload.finish()
            if is_object:
                await self._commit(target)
            else:
                part = Part(BlobLocation(target.store.id, target.name), count)
                self._expires_at = await self._lease.add(self._offset, part)
            self._lease.is_busy = False
        self._offset += count

    async def _write(self, chunk: Chunk, upload: Upload, tally: ChecksumVerifier | None) -> None:
        self._lease.moved()
        self._bytes_in += len(chunk)
        add_log_fields(bytes_in=self._bytes_in)
        self._context.quota.count(self._header.repository_id, bytes_in=len(chunk))
        await self._reservation.expect(len(chunk))
        if tally is None:
            await upload.write(chunk)
        else:
            tally.count(chunk)
            await asyncio.gather(tally.hash(chunk), upload.write(chunk))
        self._reservation.written(len(chunk))

    async def _commit(self, target: UploadTarget) -> None:
        """Make the part the blob of the object."""
        await commit_own(self._context, self._header, [target])
        metrics.UPLOADS_STORED.inc()
        self._is_committed = True
        if self._context.stores.replicas():
            self._context.copy_wanted.set()


def _verify(tally: ChecksumVerifier) -> None:
    try:
        tally.finish()
    except InvalidArgument as error:
        metrics.count_rejected(error.reason)
        raise
