"""The moment from which a repository holds an object."""

from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage import contents, index
from services.storage.models import Object
from services.storage.refusals import object_removed, repository_deleted
from services.storage.store import Store


async def commit(
    store: Store, repository_id: int, oid: str, size: int, *, name: str, replaces: str | None
) -> Object | None:
    """Let a repository hold an object whose bytes are in place under `name`, verified; return its record.

    `replaces` is under which name they lay before. Returns None where the upload was given up. Raises
    `FailedPrecondition` (OBJECT_REMOVED) and `NotFound` (REPOSITORY_NOT_FOUND).
    """

    async def work(connection: AsyncConnection) -> tuple[Object, str | None]:
        await index.lock(connection, oid, into=repository_id)
        record = await index.add(connection, repository_id, oid, size)
        if record is None:
            tombstone = await index.find(connection, repository_id, oid)
            raise object_removed(oid, tombstone.removal_reason or "") if tombstone else repository_deleted()
        committed = await contents.commit(
            connection, oid, name, replaces=replaces, replaced_seconds=store.replaced_seconds
        )
        if committed is None:
            raise _GivenUp
        return record, committed

    try:
        record, committed = await store.database.run(work)
    except _GivenUp:
        return None
    if committed != name or replaces is not None:
        store.sweep_wanted.set()
    return record


class _GivenUp(Exception):
    """Undoes the transaction."""
