"""Removal of objects: into the bin, and back. The sweeper deletes the blobs of objects that no repository needs."""

import datetime
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage.context import StorageContext
from services.storage.errors import object_not_found, object_not_removed, object_purged
from services.storage.index import bins, contents, objects, partial_uploads, turns
from services.storage.index.objects import Record


async def delete_object(
    context: StorageContext, repository_id: int, oid: str, *, reason: str, removed_by: str
) -> Record:
    """Replace the object by a tombstone and return it; the tombstone of an earlier removal stays.

    The bytes are kept in the bin for `context.bin_days`. Raises `NotFound` if the repository has neither the object
    nor its tombstone.
    """
    bin_for = datetime.timedelta(days=context.bin_days)

    async def work(connection: AsyncConnection) -> Record:
        await objects.lock(connection, [oid])
        buried = await objects.add_tombstone(
            connection, repository_id, oid, reason=reason, removed_by=removed_by, bin_for=bin_for
        )
        record = buried or await objects.find(connection, repository_id, oid)
        if record is None:
            raise object_not_found(oid)
        await contents.release_unreferenced(connection, [oid])
        return record

    tombstone = await context.database.run(work)
    context.sweep_wanted.set()
    return tombstone


async def restore_object(
    context: StorageContext, repository_id: int, oid: str, *, bytes_required: bool
) -> Record | None:
    """Let a repository hold a removed object again, and return it; None if only its tombstone was taken away.

    Raises `NotFound` if there is no tombstone, and `FailedPrecondition` (OBJECT_PURGED) if the bytes are required and
    not in the bin.
    """
    taken = False

    async def work(connection: AsyncConnection) -> Record | None:
        nonlocal taken
        await objects.lock(connection, [oid])
        if (held := await bins.take_out_of_bin(connection, repository_id, oid)) is not None:
            taken = True
            return held
        record = await objects.find(connection, repository_id, oid)
        # An earlier attempt may have been committed although its answer was lost.
        if not taken and (record is None or record.removed_at is None):
            raise object_not_removed(oid)
        if record is None or record.removed_at is None:
            return record
        if bytes_required:
            raise object_purged(oid)
        taken = await objects.remove_tombstone(connection, repository_id, oid)
        return None

    return await context.database.run(work)


async def delete_repository(context: StorageContext, repository_id: int) -> int:
    """Delete all records of a repository, and return how many objects it held. The sweeper deletes their blobs.

    From then on nothing can be written to the repository.
    """
    held = 0

    async def work(connection: AsyncConnection) -> list[Record]:
        oids = await objects.some_of(connection, repository_id, limit=objects.MAX_LOCKED)
        await objects.lock(connection, oids)
        forgotten = await objects.forget(connection, repository_id, oids)
        await contents.release_unreferenced(connection, oids)
        return forgotten

    await context.database.run(partial(objects.close_repository, repository_id=repository_id))
    await turns.forget(context.database, repository_id)
    # None is added any more.
    discard = partial(partial_uploads.discard_of_repository, repository_id=repository_id, limit=objects.MAX_LOCKED)
    while await context.database.run(discard):
        pass
    try:
        while forgotten := await context.database.run(work):
            held += sum(record.removed_at is None for record in forgotten)
    finally:
        context.sweep_wanted.set()
    return held
