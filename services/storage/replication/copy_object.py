"""Bringing one object from a store that has it to one that lacks it."""

import asyncio
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.concurrency.uncancellable import run_to_completion
from services.common.errors import InvalidArgument
from services.storage.backends.base import BytesMissing, Upload
from services.storage.blob_names import new_name
from services.storage.context import Store
from services.storage.index import contents, objects
from services.storage.index.contents import Arrived, Placed
from services.storage.index.stores import Held
from services.storage.metrics import count_copied
from services.storage.objects.damage import doubt
from services.storage.replication.rate_limit import Pace
from services.storage.stores.registry import Place
from services.storage.uploads.checksum import Tally
from services.storage.uploads.pending import noted


class _DamagedSource(Exception):
    """A store does not have the object's bytes, whatever the index says."""


async def bring(store: Store, held: Held, place: Place, *, first: int | None, pace: Pace) -> bool:
    """Bring an object to a store, verified by size and hash; tell whether it is there now.

    `first` is the store that is read before others. Where one has lost the bytes, or damaged them, that is noted, and
    the next is read. Raises `ServiceError` and OSError where a store, or the database, does not do its part.
    """
    names = await store.database.run(lambda connection: contents.names_of(connection, held.oid))
    replaces = names.pop(place.id, None)
    sources = store.places.of(Placed(*item) for item in names.items())
    for source, name in sorted(sources, key=lambda found: found[0].id != first):
        try:
            await _copy(store, held, source, name, place, replaces, pace)
        except _DamagedSource:
            # Whoever wants to forget the store is told that it alone has what there is.
            await doubt(store, [Placed(source.id, name)], if_elsewhere=True)
        else:
            return True
    return False


async def _copy(
    store: Store, held: Held, source: Place, source_name: str, place: Place, replaces: str | None, pace: Pace
) -> None:
    name = new_name(held.oid)
    tally = Tally(held.oid, held.size)
    async with noted(store, place, name), place.backend.begin(name, held.size) as upload:
        try:
            async with source.backend.open(source_name) as stored:
                if stored.size != held.size:
                    raise _DamagedSource
                async for chunk in stored.chunks(0, held.size):
                    await _add(tally, upload, chunk)
                    await pace.keep(len(chunk))
            tally.finish()
        except (BytesMissing, InvalidArgument) as error:
            raise _DamagedSource from error
        await run_to_completion(_finish(store, held, upload, place, name, replaces))


async def _add(tally: Tally, upload: Upload, chunk: bytes) -> None:
    tally.count(chunk)
    await asyncio.gather(tally.hash(chunk), upload.write(chunk))


async def _finish(store: Store, held: Held, upload: Upload, place: Place, name: str, replaces: str | None) -> None:
    await upload.finish()
    if await store.database.run(partial(_commit, held.oid, place, name, replaces)):
        count_copied(place.name, held.size)


async def _commit(oid: str, place: Place, name: str, replaces: str | None, connection: AsyncConnection) -> bool:
    """Let the object be there; tell whether it is by these bytes."""
    await objects.lock(connection, [oid], stores=[place.id])
    if not await objects.is_held(connection, oid):
        # Removed meanwhile, everywhere: nothing would ever let go of these bytes.
        await contents.give_up(connection, [name])
        return False
    arrived = Arrived(place.id, oid, name, replaces, place.replaced_seconds)
    return await contents.commit(connection, [arrived]) == [name]
