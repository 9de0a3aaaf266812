"""Batched registration of uploads in the index: concurrent uploads share one transaction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.concurrency.batcher import Batcher
from services.common.errors import ServiceError
from services.database.transactions import Database
from services.storage.errors import object_removed, repository_deleted
from services.storage.index import contents, objects
from services.storage.index.contents import PendingBlob, PendingResult, UploadedBlob
from services.storage.index.objects import ObjectToAdd, Record

# Few enough that a batch's transaction is short, and its locks are few.
_MAX_BATCH = 64
# The next batch is prepared while one is being synced to Postgres' disk.
_MAX_IN_FLIGHT = 2


@dataclass(frozen=True)
class VerifiedUpload:
    """An object that a repository is to hold, and its blobs, which are in place, verified and durable."""

    repository_id: int
    oid: str
    size: int
    blobs: Sequence[UploadedBlob]
    user_id: int | None = None
    """The user who brought it; None if that is not known."""


@dataclass(frozen=True)
class CommittedUpload:
    """The record of a committed object, and for each of the upload's `blobs` the object's blob name in that store.

    A name is None if the upload to that store was abandoned; the first name is never None.
    """

    record: Record
    names: Sequence[str | None]


class UploadRegistrar:
    """Registers uploads in the index. Its owner closes it when no upload is running any more."""

    def __init__(self, database: Database, writer: int) -> None:
        """`writer` is the id of this process's writer lease."""
        self._database = database
        self._writer = writer
        self._beginning = Batcher(self._begin, max_batch=_MAX_BATCH, max_in_flight=_MAX_IN_FLIGHT, max_wait_seconds=0)
        self._ending = Batcher(self._register, max_batch=_MAX_BATCH, max_in_flight=_MAX_IN_FLIGHT, max_wait_seconds=0)

    async def begin(self, new: Sequence[PendingBlob]) -> list[PendingResult]:
        """Record the blob names of one upload as pending; blobs that are not committed later are swept.

        Raises `Unavailable`.
        """
        return await self._beginning.submit(new)

    async def register(self, upload: VerifiedUpload) -> CommittedUpload | None:
        """Commit an upload: the repository holds the object when this returns. None if the upload was abandoned.

        Raises `FailedPrecondition` (OBJECT_REMOVED), `NotFound` (REPOSITORY_NOT_FOUND), and `Unavailable`.
        """
        return await self._ending.submit(upload)

    async def close(self) -> None:
        """Cancel the batches that are in flight or waiting."""
        await self._beginning.close()
        await self._ending.close()

    async def _begin(self, group: Sequence[Sequence[PendingBlob]]) -> list[list[PendingResult]]:
        new = [blob for blobs in group for blob in blobs]
        statement = contents.begin_statement(new, writer=self._writer)
        results = map(PendingResult._make, await self._database.fetch(statement, patient=len(group) == 1))
        return [list(islice(results, len(blobs))) for blobs in group]

    async def _register(self, group: Sequence[VerifiedUpload]) -> Sequence[CommittedUpload | ServiceError | None]:
        try:
            return await self._database.run(partial(_register, group), patient=len(group) == 1)
        except _GivenUp:
            if len(group) > 1:
                raise
            return [None]


async def _register(
    group: Sequence[VerifiedUpload], connection: AsyncConnection
) -> list[CommittedUpload | ServiceError]:
    await objects.lock(
        connection,
        [upload.oid for upload in group],
        into=[upload.repository_id for upload in group],
        stores=[blob.store_id for upload in group for blob in upload.blobs],
    )
    answers: dict[int, CommittedUpload | ServiceError] = {}
    for turn in _turns(group):
        answers |= await _register_each_object_once(turn, connection)
    return [answers[number] for number in range(len(group))]


def _turns(group: Sequence[VerifiedUpload]) -> Iterator[dict[int, VerifiedUpload]]:
    """Split a batch so that no part has an oid twice: the first upload's blobs stay, as if it had arrived earlier."""
    rest = dict(enumerate(group))
    while rest:
        first_of = {upload.oid: number for number, upload in reversed(rest.items())}
        yield {number: rest.pop(number) for number in sorted(first_of.values())}


async def _register_each_object_once(
    turn: dict[int, VerifiedUpload], connection: AsyncConnection
) -> dict[int, CommittedUpload | ServiceError]:
    added = [ObjectToAdd(upload.repository_id, upload.oid, upload.size, upload.user_id) for upload in turn.values()]
    records = await objects.add(connection, added)
    refused = [entry for entry in added if (entry.repository_id, entry.oid) not in records]
    if refused and (collected := await objects.end_collections(connection, refused)):
        records |= await objects.add(connection, collected)
    held = {number: upload for number, upload in turn.items() if (upload.repository_id, upload.oid) in records}
    arrived = [(number, blob) for number, upload in held.items() for blob in upload.blobs]
    committed = await contents.commit(connection, [blob for _, blob in arrived]) if arrived else []
    names: dict[int, list[str | None]] = {number: [] for number in held}
    for (number, _), name in zip(arrived, committed, strict=True):
        names[number].append(name)
    if any(blob_names[0] is None for blob_names in names.values()):
        raise _GivenUp
    return {
        number: CommittedUpload(records[upload.repository_id, upload.oid], names[number])
        if number in held
        else await _refusal(connection, upload)
        for number, upload in turn.items()
    }


async def _refusal(connection: AsyncConnection, upload: VerifiedUpload) -> ServiceError:
    tombstone = await objects.find(connection, upload.repository_id, upload.oid)
    return object_removed(upload.oid, tombstone.removal_reason or "") if tombstone else repository_deleted()


class _GivenUp(Exception):
    """Rolls the transaction back, so that no repository holds an object without a blob."""
