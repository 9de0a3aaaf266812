"""Locations of blobs on a disk, for processes that share the disk."""

from collections.abc import Sequence
from typing import NamedTuple

from services.common.rpc.log_fields import add_log_fields
from services.storage.backends.disk import DiskBackend
from services.storage.context import StorageContext
from services.storage.index.contents import BlobLocation
from services.storage.objects.read import held_object, is_to_be_verified, range_length


class LocatedObject(NamedTuple):
    """An object's whole size, and its paths below the folders of stores, the primary's first; none if on no disk."""

    size: int
    paths: Sequence[str]


def disks_of(context: StorageContext) -> list[int]:
    """Return the ids of the stores that other processes may read as folders now, the primary first.

    There are none if the next read is to be verified, which this service does.
    """
    if is_to_be_verified(context):
        return []
    return [store.id for store in context.stores.all if isinstance(store.backend, DiskBackend)]


def suffix_on_disk(disks: Sequence[int], location: Sequence[BlobLocation]) -> str:
    """Return the suffix of an object's blob name on the first disk that has the object; empty if no disk has it."""
    names = dict(location)
    return next((names[disk].partition(".")[2] for disk in disks if disk in names), "")


async def locate_object(
    context: StorageContext, repository_id: int, oid: str, *, offset: int, length: int | None
) -> LocatedObject:
    """Return the paths of an object, and count the part from `offset` on as read if there are any.

    The part has at most `length` bytes, or all if that is None. Raises what LocateObject documents.
    """
    await context.quota.check(repository_id)
    held = await held_object(context, repository_id, oid)
    context.reads.note(repository_id, [held])
    count = range_length(held.size, offset, length)
    disks = disks_of(context)
    located = [(store, name) for store, name in context.stores.of(held.locations) if store.id in disks]
    paths = [path for store, name in located if (path := store.backend.relative_path(name)) is not None]
    if paths:
        context.quota.count(repository_id, bytes_out=count)
        add_log_fields(bytes_out=count)
    return LocatedObject(held.size, paths)
