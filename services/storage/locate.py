"""Where the bytes of objects lie, for those who share the disk."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from services.common.errors import FailedPrecondition, NotFound, OutOfRange, ResourceExhausted
from services.common.rpc.call_fields import note
from services.storage.contents import Placed
from services.storage.read import held_object, range_length
from services.storage.store import Store


class Part(NamedTuple):
    """What will be read of an object: from `offset` on, so many bytes at most, or all."""

    repository_id: int
    oid: str
    offset: int
    length: int | None


class LocatedObject(NamedTuple):
    """The whole size of an object, and its paths below the folders of stores, the best first; none on no disk."""

    size: int
    paths: Sequence[str]
    counted: int
    """How many bytes have counted as read."""


_NOWHERE = LocatedObject(0, (), 0)


def suffix_on_disk(store: Store, placed: Sequence[Placed]) -> str:
    """Return what follows the oid and a dot in the name of an object's file on a disk; nothing where there is none."""
    for place, name in store.places.of(placed):
        if place.backend.path_below(name) is not None:
            return name.partition(".")[2]
    return ""


async def locate_object(store: Store, part: Part) -> LocatedObject:
    """Return where an object lies that will be read, and count what will be. Raises what LocateObject documents."""
    located = await _locate(store, part)
    note(bytes_out=located.counted)
    return located


async def locate_objects(store: Store, parts: Sequence[Part]) -> Sequence[LocatedObject]:
    """Return where objects lie, as `locate_object` does; nowhere and of no size where that would refuse to tell."""
    located = await asyncio.gather(*(_locate_or_not(store, part) for part in parts))
    note(bytes_out=sum(each.counted for each in located))
    return located


async def _locate_or_not(store: Store, part: Part) -> LocatedObject:
    try:
        return await _locate(store, part)
    except (NotFound, FailedPrecondition, OutOfRange, ResourceExhausted):
        return _NOWHERE


async def _locate(store: Store, part: Part) -> LocatedObject:
    await store.traffic.require(part.repository_id)
    held = await held_object(store, part.repository_id, part.oid)
    count = range_length(held.size, part.offset, part.length)
    found = (place.backend.path_below(name) for place, name in store.places.of(held.placed))
    paths = [path for path in found if path is not None]
    if not paths:
        return LocatedObject(held.size, (), 0)
    store.traffic.count(part.repository_id, bytes_out=count)
    return LocatedObject(held.size, paths, count)
