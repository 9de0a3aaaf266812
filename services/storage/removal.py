"""Removing objects. Bytes go when no repository holds them: first the index, then, under the oid's lock, the bytes."""

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import NotFound, Reason
from services.storage import index
from services.storage.models import Object
from services.storage.refusals import object_not_found
from services.storage.store import Store

_BATCH = 1000


async def delete_object(store: Store, repository_id: int, oid: str, *, reason: str, removed_by: str) -> Object:
    """Leave a tombstone in place of the object and return it; the first removal's stays.

    Raises `NotFound` where the repository knows no such object.
    """

    async def work(connection: AsyncConnection) -> Object:
        buried = await index.bury(connection, repository_id, oid, reason=reason, removed_by=removed_by)
        record = buried or await index.find(connection, repository_id, oid)
        if record is None:
            raise object_not_found(oid)
        if buried:
            await index.note_unclaimed(connection, [oid])
        return record

    tombstone = await store.database.run(work)
    settled = False
    try:
        settled = await settle(store, oid)
    finally:
        if not settled:
            store.sweep_wanted.set()
    return tombstone


async def restore_object(store: Store, repository_id: int, oid: str) -> None:
    """Take a tombstone away. Raises `NotFound` where there is none."""
    taken = False

    async def work(connection: AsyncConnection) -> None:
        nonlocal taken
        # An earlier attempt may have been committed although its answer was lost.
        taken = await index.unbury(connection, repository_id, oid) or taken
        if not taken:
            raise NotFound(Reason.OBJECT_NOT_FOUND, f"object {oid} was not removed")

    await store.database.run(work)


async def delete_repository(store: Store, repository_id: int) -> int:
    """Forget all records of a repository, and return how many objects it held. The sweeper deletes their bytes.

    From then on nothing can be written into it.
    """
    held = 0

    async def close(connection: AsyncConnection) -> None:
        await index.close_repository(connection, repository_id)

    async def work(connection: AsyncConnection) -> list[Object]:
        forgotten = await index.forget(connection, repository_id, limit=_BATCH)
        await index.note_unclaimed(connection, [record.oid for record in forgotten if record.removed_at is None])
        return forgotten

    await store.database.run(close)
    try:
        while forgotten := await store.database.run(work):
            held += sum(record.removed_at is None for record in forgotten)
    finally:
        store.sweep_wanted.set()
    return held


async def settle(store: Store, oid: str) -> bool:
    """Delete the bytes of `oid` unless a repository holds it.

    While a backup runs they are left to a later sweep: the answer is then False.
    """

    async def work(connection: AsyncConnection) -> bool:
        await index.lock(connection, oid)
        if not await index.is_held(connection, oid):
            if not await index.may_delete(connection):
                await index.note_unclaimed(connection, [oid])
                return False
            await store.backend.delete(oid)
        await index.clear_unclaimed(connection, oid)
        return True

    async with store.locks.of(oid):
        return await store.database.run(work)
