"""The bin: the bytes of removed objects, for a time."""

from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage.context import StorageContext
from services.storage.errors import object_not_removed
from services.storage.index import bins, contents, objects
from services.storage.index.objects import Record

_MAX_REPOSITORIES = 1000


class Purged(NamedTuple):
    """The tombstone of a purged object, and the ids of the repositories that still need its bytes."""

    tombstone: Record
    repository_ids: list[int]


async def purge_object(context: StorageContext, repository_id: int, oid: str) -> Purged:
    """Take the bytes of a removed object out of the repository's bin. Raises `NotFound` if it was not removed."""
    tombstone: Record | None = None

    async def work(connection: AsyncConnection) -> Purged:
        nonlocal tombstone
        await objects.lock(connection, [oid])
        # An earlier attempt may have been committed although its answer was lost: garbage has no tombstone then.
        tombstone = await bins.end_in_bin(connection, repository_id, oid) or tombstone
        if tombstone is None:
            raise object_not_removed(oid)
        await contents.release_unreferenced(connection, [oid])
        others = await bins.repositories_that_keep(connection, oid, limit=_MAX_REPOSITORIES)
        return Purged(tombstone, others)

    purged = await context.database.run(work)
    context.sweep_wanted.set()
    return purged


async def empty_bins(context: StorageContext) -> float | None:
    """Take out of all bins what is due; return the number of seconds until more is, None if the bins are empty."""

    async def work(connection: AsyncConnection) -> int:
        oids = await bins.due_in_bin(connection, limit=objects.MAX_LOCKED)
        if not oids:
            # A deletion of no rows would let all facades forget where objects are.
            return 0
        await objects.lock(connection, oids)
        await bins.end_due_in_bin(connection, oids)
        await contents.release_unreferenced(connection, oids)
        return len(oids)

    while await context.database.run(work):
        pass
    return await context.database.run(bins.seconds_in_bin)
