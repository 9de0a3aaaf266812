"""Removal of objects. The index discards the blobs of objects that no repository holds; the sweeper deletes them."""

from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import NotFound, Reason
from services.storage.context import StorageContext
from services.storage.errors import object_not_found
from services.storage.index import contents, objects
from services.storage.index.objects import Record

# Each object takes a lock in Postgres, which has room for some thousands of locks.
_BATCH = 200


async def delete_object(
    context: StorageContext, repository_id: int, oid: str, *, reason: str, removed_by: str
) -> Record:
    """Replace the object by a tombstone and return it; the tombstone of an earlier removal stays.

    Raises `NotFound` if the repository has neither the object nor its tombstone.
    """

    async def work(connection: AsyncConnection) -> Record:
        await objects.lock(connection, [oid])
        buried = await objects.add_tombstone(connection, repository_id, oid, reason=reason, removed_by=removed_by)
        record = buried or await objects.find(connection, repository_id, oid)
        if record is None:
            raise object_not_found(oid)
        await contents.release_unreferenced(connection, [oid])
        return record

    tombstone = await context.database.run(work)
    context.sweep_wanted.set()
    return tombstone


async def restore_object(context: StorageContext, repository_id: int, oid: str) -> None:
    """Remove a tombstone. Raises `NotFound` if there is none."""
    taken = False

    async def work(connection: AsyncConnection) -> None:
        nonlocal taken
        # An earlier attempt may have been committed although its answer was lost.
        taken = await objects.remove_tombstone(connection, repository_id, oid) or taken
        if not taken:
            raise NotFound(Reason.OBJECT_NOT_FOUND, f"object {oid} was not removed")

    await context.database.run(work)


async def delete_repository(context: StorageContext, repository_id: int) -> int:
    """Delete all records of a repository, and return how many objects it held. The sweeper deletes their blobs.

    From then on nothing can be written to the repository.
    """
    held = 0

    async def work(connection: AsyncConnection) -> list[Record]:
        oids = await objects.some_of(connection, repository_id, limit=_BATCH)
        await objects.lock(connection, oids)
        forgotten = await objects.forget(connection, repository_id, oids)
        await contents.release_unreferenced(connection, oids)
        return forgotten

    await context.database.run(partial(objects.close_repository, repository_id=repository_id))
    try:
        while forgotten := await context.database.run(work):
            held += sum(record.removed_at is None for record in forgotten)
    finally:
        context.sweep_wanted.set()
    return held
