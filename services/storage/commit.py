"""The moment from which a repository holds an object."""

from collections.abc import Sequence

from services.storage.incoming import Incoming
from services.storage.index import Record
from services.storage.registrar import Verified
from services.storage.store import Store


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
