"""Signing addresses for the objects of a batch."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage import index
from services.storage.direct import uploads
from services.storage.intent import Intent
from services.storage.models import Object
from services.storage.names import new_name
from services.storage.refusals import repository_deleted
from services.storage.signing import SignedUrl, Signing
from services.storage.stat import ObjectKey
from services.storage.store import Store

# All that S3 takes in one PUT; what is larger is relayed, in parts.
_LARGEST_PUT = 5 * 1024**3
# All that S3 allows.
_LONGEST_SECONDS = 7 * 24 * 3600


async def sign_objects(
    store: Store, repository_id: int, keys: Sequence[ObjectKey], intent: Intent, *, seconds: int
) -> list[SignedUrl | None]:
    """Return addresses at the store, in order; None for what is relayed. Raises what SignObjectUrls documents."""
    signing = store.backend.signing
    if signing is None or not store.direct.cover(intent):
        return [None] * len(keys)
    seconds = min(seconds, _LONGEST_SECONDS)
    if intent is Intent.READ:
        signed = await _downloads(store, signing, repository_id, set(keys), seconds)
    else:
        signed = await _uploads(store, signing, repository_id, set(keys), seconds)
    return [signed.get(key) for key in keys]


async def _downloads(
    store: Store, signing: Signing, repository_id: int, keys: set[ObjectKey], seconds: int
) -> dict[ObjectKey, SignedUrl]:
    async def work(connection: AsyncConnection) -> list[tuple[Object, str]]:
        return await index.locate(connection, repository_id, [key.oid for key in keys])

    found = await store.database.run(work)
    names = {
        key: name
        for record, name in found
        if record.removed_at is None and name and (key := ObjectKey(record.oid, record.size)) in keys
    }
    if not names:
        return {}
    await store.traffic.require(repository_id)
    # So long bytes stay that others have taken the place of meanwhile.
    seconds = min(seconds, int(store.replaced_seconds))
    urls = await signing.outside.downloads(list(names.values()), seconds)
    store.traffic.count(repository_id, bytes_out=sum(key.size for key in names))
    return dict(zip(names, urls, strict=True))


async def _uploads(
    store: Store, signing: Signing, repository_id: int, keys: set[ObjectKey], seconds: int
) -> dict[ObjectKey, SignedUrl]:
    # Clients differ in how they send an empty body, and there is nothing to gain.
    names = {key: new_name(key.oid) for key in keys if 0 < key.size <= _LARGEST_PUT}
    missing: dict[ObjectKey, str] = {}

    async def work(connection: AsyncConnection) -> None:
        nonlocal missing
        if await index.is_deleted(connection, repository_id):
            raise repository_deleted()
        found = await index.locate(connection, repository_id, [key.oid for key in names])
        # Held, or removed; one without bytes is held by the index alone, and may be written again.
        known = {record.oid for record, name in found if name or record.removed_at is not None}
        missing = {key: name for key, name in names.items() if key.oid not in known}
        await uploads.begin(connection, repository_id, list(missing.values()), seconds=seconds)

    if not names:
        return {}
    await store.traffic.require(repository_id)
    await store.database.run(work)
    urls = await signing.outside.uploads([(name, key.size) for key, name in missing.items()], seconds)
    return dict(zip(missing, urls, strict=True))
