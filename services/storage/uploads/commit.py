"""The commit of an upload, from which on a repository holds the object."""

from collections.abc import Sequence

from services.storage.context import StorageContext
from services.storage.errors import upload_given_up
from services.storage.index.objects import Record
from services.storage.index.registrar import VerifiedUpload
from services.storage.uploads.fanout import UploadTarget
from services.storage.uploads.stream import UploadHeader


async def commit(context: StorageContext, header: UploadHeader, targets: Sequence[UploadTarget]) -> Record | None:
    """Commit an object whose blobs are in place and verified; return its record.

    `targets` has a blob in at least one store. Returns None if the upload to the first store was abandoned; other
    stores that lack the object are filled later. Raises `FailedPrecondition` (OBJECT_REMOVED) and `NotFound`
    (REPOSITORY_NOT_FOUND).
    """
    blobs = [target.uploaded(header.oid) for target in targets]
    upload = VerifiedUpload(header.repository_id, header.oid, header.size, blobs, header.user_id)
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
    """Commit an upload of this process as `commit` does; raise `Unavailable` if it was abandoned."""
    record = await commit(context, header, targets)
    if record is None:
        # The process that abandoned the upload may have deleted under these names before the blobs were in place.
        for target in targets:
            await target.store.backend.delete(target.name)
        raise upload_given_up()
    return record
