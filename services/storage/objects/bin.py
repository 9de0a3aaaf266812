"""The bin: the bytes of removed objects, for a time."""

from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage.context import StorageContext
from services.storage.errors import object_not_removed
from services.storage.index import contents, objects
from services.storage.index.objects import Record

_MAX_REPOSITORIES = 1000


class Purged(NamedTuple):
    """The tombstone of a purged object, and the ids of the repositories that still need its bytes."""

    tombstone: Record
    repository_ids: list[int]


async def purge_object(context: StorageContext, repository_id: int, oid: str) -> Purged:
    """Take the bytes of a removed object out of the repository's bin. Raises `NotFound` if it was not removed."""

    async def work(connection: AsyncConnection) -> Purged:
        await objects.lock(connection, [oid])
        tombstone = await objects.end_in_bin(connection, repository_id, oid)
        if tombstone is None:
            raise object_not_removed(oid)
        await contents.release_unreferenced(connection, [oid])
        others = await objects.repositories_that_keep(connection, oid, limit=_MAX_REPOSITORIES)
        return Purged(tombstone, others)

    purged = await context.database.run(work)
    context.sweep_wanted.set()
    return purged


async def empty_bins(context: StorageContext) -> float | None:
    """Take out of all bins what is due; return the number of seconds until more is, None if the bins are empty."""

    async def work(connection: AsyncConnection) -> int:
        oids = await objects.due_in_bin(connection, limit=objects.MAX_LOCKED)
        await objects.lock(connection, oids)
        await objects.end_due_in_bin(connection, oids)
        await contents.release_unreferenced(connection, oids)
        return len(oids)

    while await context.database.run(work):
        pass
    return await context.database.run(objects.seconds_in_bin)
