"""Where the bytes of an object lie, for those who share the disk."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.common.rpc.call_fields import note
from services.storage.read import held_object, range_length
from services.storage.store import Store


@dataclass(frozen=True)
class LocatedObject:
    """The whole size of an object, and its paths below the folders of stores, the best first; none on no disk."""

    size: int
    paths: Sequence[str]


async def locate_object(
    store: Store, repository_id: int, oid: str, *, offset: int, length: int | None
) -> LocatedObject:
    """Return where an object lies that will be read, and count what will be. Raises what LocateObject documents."""
    await store.traffic.require(repository_id)
    held = await held_object(store, repository_id, oid)
    count = range_length(held.size, offset, length)
    found = (place.backend.path_below(name) for place, name in store.places.of(held.placed))
    paths = [path for path in found if path is not None]
    if paths:
        store.traffic.count(repository_id, bytes_out=count)
        note(bytes_out=count)
    return LocatedObject(held.size, paths)
