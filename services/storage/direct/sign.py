"""Signing addresses for the objects of a batch."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage import index
from services.storage.direct import uploads
from services.storage.index import Asked
from services.storage.intent import Intent
from services.storage.names import new_name
from services.storage.refusals import repository_deleted, store_gone
from services.storage.signing import SignedUrl, Signer
from services.storage.stat import ObjectKey
from services.storage.store import Store
from services.storage.stores.places import Place

# All that S3 takes in one PUT; what is larger is relayed, in parts.
_LARGEST_PUT = 5 * 1024**3
# All that S3 allows.
_LONGEST_SECONDS = 7 * 24 * 3600


async def sign_objects(
    store: Store, repository_id: int, keys: Sequence[ObjectKey], intent: Intent, *, seconds: int
) -> list[SignedUrl | None]:
    """Return addresses at the store, in order; None for what is relayed. Raises what SignObjectUrls documents."""
    place = store.places.primary
    if place.backend.signing is None or not place.direct.cover(intent):
        return [None] * len(keys)
    sign = _downloads if intent is Intent.READ else _uploads
    signed = await sign(
        store, place, place.backend.signing.outside, repository_id, set(keys), min(seconds, _LONGEST_SECONDS)
    )
    return [signed.get(key) for key in keys]


async def _downloads(
    store: Store, place: Place, signer: Signer, repository_id: int, keys: set[ObjectKey], seconds: int
) -> dict[ObjectKey, SignedUrl]:
    found = await store.lookups.locate(repository_id, {key.oid for key in keys})
    names = {
        key: name
        for record, placed, _ in found
        if record.removed_at is None and (name := dict(placed).get(place.id))
        if (key := ObjectKey(record.oid, record.size)) in keys
    }
    if not names:
        return {}
    await store.traffic.require(repository_id)
    # So long bytes stay that others have taken the place of meanwhile.
    seconds = min(seconds, int(place.replaced_seconds))
    urls = await signer.downloads(list(names.values()), seconds)
    store.traffic.count(repository_id, bytes_out=sum(key.size for key in names))
    return dict(zip(names, urls, strict=True))


async def _uploads(
    store: Store, place: Place, signer: Signer, repository_id: int, keys: set[ObjectKey], seconds: int
) -> dict[ObjectKey, SignedUrl]:
    # Clients differ in how they send an empty body, and there is nothing to gain.
    names = {key: new_name(key.oid) for key in keys if 0 < key.size <= _LARGEST_PUT}
    missing: dict[ObjectKey, str] = {}

    async def work(connection: AsyncConnection) -> None:
        nonlocal missing
        if await index.is_deleted(connection, repository_id):
            raise repository_deleted()
        [found] = await index.locate(connection, [Asked(repository_id, [key.oid for key in names])])
        # Held, or removed; one without bytes is held by the index alone, and may be written again.
        known = {record.oid for record, *placed in found if any(placed) or record.removed_at is not None}
        missing = {key: name for key, name in names.items() if key.oid not in known}
        if not await uploads.begin(connection, repository_id, place.id, list(missing.values()), seconds=seconds):
            raise store_gone()

    if not names:
        return {}
    await store.traffic.require(repository_id)
    await store.database.run(work)
    urls = await signer.uploads([(name, key.size) for key, name in missing.items()], seconds)
    return dict(zip(missing, urls, strict=True))
