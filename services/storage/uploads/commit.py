"""The moment from which a repository holds an object."""

from collections.abc import Sequence

from services.storage.context import StorageContext
from services.storage.errors import upload_given_up
from services.storage.index.objects import Record
from services.storage.index.registrar import VerifiedUpload
from services.storage.uploads.fanout import UploadTarget
from services.storage.uploads.stream import UploadHeader


async def commit(
    context: StorageContext, repository_id: int, oid: str, size: int, targets: Sequence[UploadTarget]
) -> Record | None:
    """Let a repository hold an object whose bytes are in place, verified; return its record.

    `targets` is where they are, at least in one store. Returns None where the upload to the first was given up; what
    others lack is brought there later. Raises `FailedPrecondition` (OBJECT_REMOVED) and `NotFound`
    (REPOSITORY_NOT_FOUND).
    """
    upload = VerifiedUpload(repository_id, oid, size, [target.uploaded(oid) for target in targets])
    committed = await context.registrar.register(upload)
    if committed is None:
        return None
    if any(
        name != target.name or target.replaces is not None
        for name, target in zip(committed.names, targets, strict=True)
    ):
        context.sweep_wanted.set()
    return committed.record


async def commit_own(context: StorageContext, header: UploadHeader, targets: Sequence[UploadTarget]) -> Record:
    """Do what `commit` does for an upload of this process; raise `Unavailable` where it was given up."""
    record = await commit(context, header.repository_id, header.oid, header.size, targets)
    if record is None:
        # Who gave it up may have removed what was there before these bytes were.
        for target in targets:
            await target.store.backend.delete(target.name)
        raise upload_given_up()
    return record
