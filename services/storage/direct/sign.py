"""Signed URLs for the objects of a batch."""

from collections.abc import Mapping, Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import Unavailable
from services.common.observability.logs import get_logger
from services.storage.backends.signing import SignedUrl, Signer
from services.storage.blob_names import new_name
from services.storage.capacity.reservations import ANNOUNCED_SECONDS
from services.storage.context import StorageContext
from services.storage.direct.unconfirmed import confirm_arrived
from services.storage.errors import repository_deleted, store_gone
from services.storage.index import client_uploads, objects
from services.storage.index.contents import BlobLocation
from services.storage.intent import Intent
from services.storage.objects.stat import ObjectKey, ObjectStat, Status, announce, stat_objects
from services.storage.stores.registry import Store

_log = get_logger(__name__)

# The most that S3 accepts in one PUT; a larger object is relayed, in parts.
_MAX_PUT_BYTES = 5 * 1024**3
# The longest validity of a signed URL that S3 allows.
_MAX_SECONDS = 7 * 24 * 3600


async def sign_objects(
    context: StorageContext,
    repository_id: int,
    keys: Sequence[ObjectKey],
    intent: Intent,
    *,
    seconds: int,
    user_id: int | None = None,
) -> list[SignedUrl | None]:
    """Return signed URLs, in order; None for a relayed object. Raises what SignObjectUrls documents.

    Where there is a quota, uploads are signed only for objects for which room is reserved, and for no longer than that.
    In any case, what a user has not confirmed is bounded by `client_uploads.begin`.
    """
    if not context.stores.primary.direct.includes(intent):
        return [None] * len(keys)
    held: dict[ObjectKey, Sequence[BlobLocation]] = {}
    wanted = set(keys)
    if intent is Intent.WRITE:
        sizes = {key.oid: key.size for key in keys}
        admitted = await announce(context, repository_id, sizes, seconds=seconds, user_id=user_id)
        if admitted is not None:
            wanted = {key for key in wanted if admitted[key.oid].is_reserved}
            seconds = min(seconds, ANNOUNCED_SECONDS)
    if intent is Intent.READ:
        found = await context.lookups.locate(repository_id, {key.oid for key in keys})
        context.reads.note(repository_id, found)
        held = {ObjectKey(stored.oid, stored.size): stored.locations for stored in found if not stored.is_removed}
    signed = await _sign(context, repository_id, wanted, held, intent, seconds, user_id)
    return [signed.get(key) for key in keys]


async def stat_and_sign(
    context: StorageContext,
    repository_id: int,
    keys: Sequence[ObjectKey],
    intent: Intent,
    *,
    seconds: int,
    user_id: int | None = None,
) -> tuple[list[ObjectStat], Sequence[SignedUrl | None]]:
    """Return an answer for each key as `stat_objects` does, and for `seconds`, if not 0, a signed URL or None.

    Uploads that clients brought to the store and have not confirmed are confirmed first. All URLs are None if the store
    does not answer. Raises what BatchStatObjects documents.
    """
    if intent is not Intent.NONE:
        await confirm_arrived(context, repository_id, [key.oid for key in keys])
    stats = await stat_objects(context, repository_id, keys, intent, seconds=seconds, user_id=user_id)
    if not seconds or not context.stores.primary.direct.includes(intent):
        return stats, [None] * len(keys)
    answered = list(zip(keys, stats, strict=True))
    moved = Status.PRESENT if intent is Intent.READ else Status.MISSING
    wanted = {
        key for key, stat in answered if stat.status is moved and (stat.admission is None or stat.admission.is_reserved)
    }
    if any(stat.admission is not None for stat in stats):
        seconds = min(seconds, ANNOUNCED_SECONDS)
    held = {ObjectKey(key.oid, stat.size): stat.locations for key, stat in answered}
    try:
        signed = await _sign(context, repository_id, wanted, held, intent, seconds, user_id)
    except Unavailable as error:
        _log.warning("bytes are relayed: nothing can be signed for the moment", message=error.message)
        return stats, [None] * len(keys)
    return stats, [signed.get(key) for key in keys]


async def _sign(
    context: StorageContext,
    repository_id: int,
    keys: set[ObjectKey],
    held: Mapping[ObjectKey, Sequence[BlobLocation]],
    intent: Intent,
    seconds: int,
    user_id: int | None,
) -> dict[ObjectKey, SignedUrl]:
    store = context.stores.primary
    if store.backend.signing is None:
        return {}
    signer, seconds = store.backend.signing.outside, min(seconds, _MAX_SECONDS)
    if intent is Intent.WRITE:
        return await _uploads(context, store, signer, repository_id, keys, seconds, user_id)
    names = {key: name for key in keys if (name := dict(held.get(key, ())).get(store.id))}
    return await _downloads(context, store, signer, repository_id, names, seconds)


async def _downloads(
    context: StorageContext,
    store: Store,
    signer: Signer,
    repository_id: int,
    names: Mapping[ObjectKey, str],
    seconds: int,
) -> dict[ObjectKey, SignedUrl]:
    if not names:
        return {}
    await context.quota.check(repository_id)
    # A URL must not outlive its blob: a blob that is replaced meanwhile is retained only this long.
    seconds = min(seconds, int(store.replaced_seconds))
    urls = await signer.downloads(list(names.values()), seconds)
    context.quota.count(repository_id, bytes_out=sum(key.size for key in names))
    return dict(zip(names, urls, strict=True))


async def _uploads(
    context: StorageContext,
    store: Store,
    signer: Signer,
    repository_id: int,
    keys: set[ObjectKey],
    seconds: int,
    user_id: int | None,
) -> dict[ObjectKey, SignedUrl]:
    # Empty objects are relayed because clients differ in how they send an empty body, and there is nothing to gain.
    names = {key: new_name(key.oid) for key in keys if 0 < key.size <= _MAX_PUT_BYTES}
    if not names:
        return {}
    await context.quota.check(repository_id)
    found = await context.lookups.locate(repository_id, [key.oid for key in names])
    # No URL for objects that are removed or have a blob, even a damaged one. An object that has a record in the index
    # but no blob may be written again.
    known = {
        stored.oid
        for stored in found
        if (stored.is_removed and not stored.is_collected) or stored.locations or stored.damaged
    }
    missing = {key: name for key, name in names.items() if key.oid not in known}

    async def work(connection: AsyncConnection) -> list[str]:
        if await objects.is_deleted(connection, repository_id):
            raise repository_deleted()
        begun = await client_uploads.begin(
            connection,
            repository_id,
            store.id,
            {name: key.size for key, name in missing.items()},
            seconds=seconds,
            user_id=user_id,
            most_bytes=_most_unconfirmed(context, repository_id, user_id),
        )
        if begun is None:
            raise store_gone()
        return begun

    begun = set(await context.database.run(work))
    signed = {key: name for key, name in missing.items() if name in begun}
    urls = await signer.uploads([(name, key.size) for key, name in signed.items()], seconds)
    return dict(zip(signed, urls, strict=True))


def _most_unconfirmed(context: StorageContext, repository_id: int, user_id: int | None) -> int | None:
    """Return the bytes that a user may bring to the store without a confirmation; None where there is no quota.

    They lie there for a day, and reservations count them for ten minutes only.
    """
    quota, of_user = context.limits.quota_of(repository_id), context.limits.user_quota_of(user_id)
    shares = (None if quota is None else quota // 10, of_user)
    return min((share for share in shares if share is not None), default=None)
