"""The moment from which a repository holds an object."""

from collections.abc import Sequence

from services.storage.context import Store
from services.storage.errors import upload_given_up
from services.storage.index.objects import Record
from services.storage.index.registrar import Verified
from services.storage.uploads.fanout import Incoming
from services.storage.uploads.stream import UploadHeader


async def commit(store: Store, repository_id: int, oid: str, size: int, arrived: Sequence[Incoming]) -> Record | None:
    """Let a repository hold an object whose bytes are in place, verified; return its record.

    `arrived` is where they are, at least in one store. Returns None where the upload to the first was given up; what
    others lack is brought there later. Raises `FailedPrecondition` (OBJECT_REMOVED) and `NotFound`
    (REPOSITORY_NOT_FOUND).
    """
    verified = Verified(repository_id, oid, size, [one.arrived(oid) for one in arrived])
    registered = await store.registrar.register(verified)
    if registered is None:
        return None
    if any(name != one.name or one.replaces is not None for name, one in zip(registered.names, arrived, strict=True)):
        store.sweep_wanted.set()
    return registered.record


async def keep(store: Store, header: UploadHeader, arrived: Sequence[Incoming]) -> Record:
    """Do what `commit` does for an upload of this process; raise `Unavailable` where it was given up."""
    record = await commit(store, header.repository_id, header.oid, header.size, arrived)
    if record is None:
        # Who gave it up may have removed what was there before these bytes were.
        for one in arrived:
            await one.place.backend.discard(one.name)
        raise upload_given_up()
    return record
