"""Copies of objects from one repository to another, which need no bytes."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage.context import StorageContext
from services.storage.errors import repository_deleted
from services.storage.index import objects


class Copied(NamedTuple):
    """The oids of objects that were copied, that are not to be had, and that were removed from the other repository."""

    copied: list[str]
    missing: list[str]
    removed: list[str]


async def copy_objects(
    context: StorageContext, repository_id: int, to_repository_id: int, oids: Sequence[str]
) -> Copied:
    """Let a repository hold those of these objects that another one holds. May be repeated.

    Raises `NotFound` (REPOSITORY_NOT_FOUND) if the repository that is to hold them was deleted.
    """
    found = Copied([], [], [])
    for batch in (oids[start : start + objects.MAX_LOCKED] for start in range(0, len(oids), objects.MAX_LOCKED)):

        async def work(connection: AsyncConnection, batch: Sequence[str] = batch) -> Copied:
            await objects.lock(connection, batch, into=[to_repository_id])
            if await objects.is_deleted(connection, to_repository_id):
                raise repository_deleted()
            copied = await objects.copy(connection, repository_id, to_repository_id, batch)
            records = await objects.held_or_removed(connection, to_repository_id, batch)
            return Copied(
                sorted(copied),
                [oid for oid in batch if oid not in records],
                [oid for oid in batch if records.get(oid)],
            )

        for whole, part in zip(found, await context.database.run(work), strict=True):
            whole.extend(part)
    return found
