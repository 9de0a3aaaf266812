"""Confirmation of direct uploads: committed only once the store confirms their size and SHA-256."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import Reason, ServiceError
from services.common.observability.logs import get_logger
from services.storage import metrics
from services.storage.backends.signing import StoredFacts
from services.storage.context import StorageContext
from services.storage.errors import object_not_found, object_removed
from services.storage.index import client_uploads, contents, objects
from services.storage.index.contents import BlobLocation
from services.storage.index.objects import Record
from services.storage.index.uses import revive
from services.storage.uploads.commit import commit
from services.storage.uploads.fanout import UploadTarget
from services.storage.uploads.stream import UploadHeader

# Each check costs a request. A client that uploads repeatedly gets a new name each time, and has used a recent one.
_MAX_CHECKED = 20

_log = get_logger(__name__)


async def confirm_object(context: StorageContext, header: UploadHeader) -> Record:
    """Return the record of the object that the repository now holds. Raises what ConfirmObject documents."""
    repository_id, oid, size = header.repository_id, header.oid, header.size
    seen = await _look(context, repository_id, oid)
    if _is_removed(seen) and await revive(context.database, repository_id, [oid]):
        seen = await _look(context, repository_id, oid)
    # What was removed as garbage may be uploaded again.
    if seen.record is not None and _is_removed(seen) and not seen.record.is_collected:
        raise object_removed(oid, seen.record.removal_reason or "")
    if seen.record is not None and seen.held and not _is_removed(seen):
        if seen.record.size != size:
            raise object_not_found(oid)
        return seen.record
    arrived = await _arrived(context, seen, oid, size)
    record = None if arrived is None else await _commit(context, header, arrived)
    if record is None:
        raise object_not_found(oid)
    return record


@dataclass(frozen=True)
class _Seen:
    record: Record | None
    held: dict[int, str]
    """The blob names of the object by store id, for all repositories together."""
    brought: list[BlobLocation]


def _is_removed(seen: _Seen) -> bool:
    return seen.record is not None and seen.record.removed_at is not None


async def _look(context: StorageContext, repository_id: int, oid: str) -> _Seen:
    async def work(connection: AsyncConnection) -> _Seen:
        # In the order in which a name moves between tables, so that a name confirmed meanwhile is seen in one of them.
        brought = await client_uploads.brought(connection, repository_id, oid, limit=_MAX_CHECKED)
        held = await contents.names_of(connection, oid)
        return _Seen(await objects.find(connection, repository_id, oid), held, brought)

    return await context.database.run(work)


async def _arrived(context: StorageContext, seen: _Seen, oid: str, size: int) -> UploadTarget | None:
    """Return the first upload that its store confirms; abandon uploads whose bytes are not the object's."""
    for store_id, name in seen.brought:
        store = context.stores.get(store_id)
        if store is None or store.backend.signing is None or not store.backend.signing.signs_uploads:
            continue
        facts = await store.backend.signing.inside.facts(name)
        if facts == StoredFacts(size, oid):
            return UploadTarget(store, name, seen.held.get(store_id))
        if facts is not None and facts.sha256 != oid:
            await _give_up(context, name)
    return None


async def _give_up(context: StorageContext, name: str) -> None:
    _log.warning("the store does not confirm the bytes that a client brought", name=name)
    metrics.count_rejected(Reason.HASH_MISMATCH)
    await _discard(context, name)


async def _discard(context: StorageContext, name: str) -> None:
    await context.database.run(lambda connection: contents.give_up(connection, [name]))
    context.sweep_wanted.set()


async def _commit(context: StorageContext, header: UploadHeader, arrived: UploadTarget) -> Record | None:
    try:
        # The URL may have outlived its reservation.
        async with context.reservations.admitted(
            header.repository_id, header.oid, header.size, user_id=header.user_id, ends_when_cancelled=False
        ):
            record = await commit(context, header, [arrived])
    except ServiceError as error:
        metrics.count_rejected(error.reason)
        if error.reason == Reason.QUOTA_EXCEEDED:
            await _discard(context, arrived.name)
        raise
    if record is not None:
        metrics.UPLOADS_STORED.inc()
        context.quota.count(header.repository_id, bytes_in=header.size)
    return record
