"""The moment from which a repository holds an object."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage import contents, index
from services.storage.incoming import Incoming
from services.storage.models import Object
from services.storage.refusals import object_removed, repository_deleted
from services.storage.store import Store


async def commit(store: Store, repository_id: int, oid: str, size: int, arrived: Sequence[Incoming]) -> Object | None:
    """Let a repository hold an object whose bytes are in place, verified; return its record.

    `arrived` is where they are, at least in one store. Returns None where the upload to the first was given up; what
    others lack is brought there later. Raises `FailedPrecondition` (OBJECT_REMOVED) and `NotFound`
    (REPOSITORY_NOT_FOUND).
    """

    async def work(connection: AsyncConnection) -> tuple[Object, list[str | None]]:
        await index.lock(connection, oid, into=repository_id)
        record = await index.add(connection, repository_id, oid, size)
        if record is None:
            tombstone = await index.find(connection, repository_id, oid)
            raise object_removed(oid, tombstone.removal_reason or "") if tombstone else repository_deleted()
        names = [
            await contents.commit(
                connection, oid, one.placed, replaces=one.replaces, replaced_seconds=one.place.replaced_seconds
            )
            for one in arrived
        ]
        if names[0] is None:
            raise _GivenUp
        return record, names

    try:
        record, names = await store.database.run(work)
    except _GivenUp:
        return None
    if any(name != one.name or one.replaces is not None for name, one in zip(names, arrived, strict=True)):
        store.sweep_wanted.set()
    return record


class _GivenUp(Exception):
    """Undoes the transaction."""
