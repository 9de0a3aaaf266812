"""Batched uploads of objects in one piece: concurrent uploads share the writes to the disk and to the index."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.common.concurrency.batcher import Batcher
from services.common.errors import ServiceError
from services.storage.backends.base import Chunk
from services.storage.blob_names import new_name
from services.storage.context import StorageContext
from services.storage.errors import object_removed, repository_deleted, upload_given_up
from services.storage.index.objects import Record
from services.storage.journal import Journal, table
from services.storage.journal.table import Committed, Journaled
from services.storage.stores.registry import Store
from services.storage.uploads.checksum import ChecksumVerifier
from services.storage.uploads.commit import commit_own
from services.storage.uploads.fanout import UploadTarget, put_blobs
from services.storage.uploads.pending import pending_uploads
from services.storage.uploads.stream import UploadHeader

# Bounds the objects that are in memory, and that one thread writes.
_MAX_BATCH = 32
# Several times the duration of a batch on a healthy disk.
_MAX_WAIT_SECONDS = 0.03
# A remote store takes long for a batch, whatever the number of batches in flight.
_MAX_REMOTE_IN_FLIGHT = 16


@dataclass(frozen=True)
class _Whole:
    """A whole and verified object."""

    header: UploadHeader
    data: Chunk


class SmallObjectWriter:
    """Writes objects in one piece, in batches. Its owner closes it when no upload is running any more."""

    def __init__(self, context: StorageContext) -> None:
        self._context = context
        self._batcher = Batcher(self._write, max_batch=_MAX_BATCH, max_wait_seconds=_MAX_WAIT_SECONDS)
        self._remote_batcher = Batcher(
            self._write, max_batch=_MAX_BATCH, max_in_flight=_MAX_REMOTE_IN_FLIGHT, max_wait_seconds=0
        )

    async def write(self, header: UploadHeader, data: Chunk) -> Record:
        """Verify and store an object, and return the record of the object that the repository now holds.

        Raises what WriteObject documents; the object is then not stored. A batch in flight continues even if the caller
        stops waiting.
        """
        await self._context.quota.check(header.repository_id)
        self._context.quota.count(header.repository_id, bytes_in=len(data))
        # A batch in flight needs the room even if the caller is gone.
        async with self._context.reservations.admitted(
            header.repository_id, header.oid, header.size, user_id=header.user_id, ends_when_cancelled=False
        ):
            tally = ChecksumVerifier(header.oid, header.size)
            tally.count(data)
            await tally.hash(data)
            tally.finish()
            is_remote = self._context.stores.primary.backend.is_remote
            return await (self._remote_batcher if is_remote else self._batcher).submit(_Whole(header, data))

    async def close(self) -> None:
        """Cancel the batches that are in flight or waiting."""
        await self._batcher.close()
        await self._remote_batcher.close()

    async def _write(self, group: Sequence[_Whole]) -> Sequence[Record | ServiceError]:
        primary = self._context.stores.primary
        journal = self._context.journals.of(primary)
        if journal is None or self._context.stores.replicas():
            return await self._write_to_stores(group)
        return await self._write_journaled(group, primary, journal)

    async def _write_journaled(
        self, group: Sequence[_Whole], store: Store, journal: Journal
    ) -> Sequence[Record | ServiceError]:
        """Write to a disk without copies: blob names in its journal need not be recorded as pending."""
        data = {whole.header.oid: whole.data for whole in group}
        names = {oid: new_name(oid) for oid in data}
        # Of two uploads of an object to a repository, the user of the first counts.
        users = {(whole.header.repository_id, whole.header.oid): whole.header.user_id for whole in reversed(group)}
        uploads = [_journaled(whole.header, names, users) for whole in group]
        # For a while the bytes are on the disk twice: in the segment and in their files.
        size = 2 * sum(map(len, data.values()))
        async with self._context.space.reserve(size) as reservation:
            await reservation.expect(size)
            async with journal.written({names[oid]: content for oid, content in data.items()}) as segment:
                reservation.written(size)
                committed = await table.commit(
                    self._context.database, segment.name, store.id, set(uploads), patient=len(group) == 1
                )
                if committed is None:
                    segment.is_broken = True
                    raise upload_given_up()
        if any(outcome.is_replacing for outcome in committed.values()):
            self._context.sweep_wanted.set()
        kept = {upload.name for upload, outcome in committed.items() if outcome.created_at is not None}
        for name in set(names.values()) - kept:
            await store.backend.delete(name)
        return [_outcome(upload, committed[upload]) for upload in uploads]

    async def _write_to_stores(self, group: Sequence[_Whole]) -> Sequence[Record | ServiceError]:
        """Write to the primary and to the copies that keep up, under blob names recorded as pending beforehand."""
        size = sum(whole.header.size for whole in group)
        async with (
            self._context.space.reserve(size) as reservation,
            pending_uploads(self._context, [whole.header for whole in group]) as pending,
        ):
            await reservation.expect(size)
            bytes_of: dict[Store, dict[str, Chunk]] = {}
            for whole, targets in zip(group, pending, strict=True):
                if not isinstance(targets, ServiceError):
                    for target in targets:
                        bytes_of.setdefault(target.store, {})[target.name] = whole.data
            kept_up = await put_blobs(bytes_of, self._context.stores) if bytes_of else set()
            reservation.written(size)
            if len(kept_up) < len(bytes_of):
                self._context.sweep_wanted.set()
                self._context.copy_wanted.set()
            return await asyncio.gather(
                *(self._keep(whole, targets, kept_up) for whole, targets in zip(group, pending, strict=True))
            )

    async def _keep(
        self, whole: _Whole, pending: list[UploadTarget] | ServiceError, kept_up: set[Store]
    ) -> Record | ServiceError:
        if isinstance(pending, ServiceError):
            return pending
        try:
            return await commit_own(
                self._context, whole.header, [target for target in pending if target.store in kept_up]
            )
        except ServiceError as error:
            self._context.sweep_wanted.set()
            return error


def _journaled(
    header: UploadHeader, names: Mapping[str, str], users: Mapping[tuple[int, str], int | None]
) -> Journaled:
    user_id = users[header.repository_id, header.oid]
    return Journaled(header.repository_id, header.oid, header.size, names[header.oid], user_id)


def _outcome(asked: Journaled, committed: Committed) -> Record | ServiceError:
    if committed.created_at is not None:
        return Record(asked.oid, asked.size, committed.created_at, None, None, None)
    if committed.removal_reason is not None:
        return object_removed(asked.oid, committed.removal_reason)
    return repository_deleted()
