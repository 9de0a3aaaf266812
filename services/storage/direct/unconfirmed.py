"""Direct uploads that no client confirms: the store is asked before an object is missing, or is given up.

The action `verify` is optional, and some clients never perform it. What lies in the store with the right size and
SHA-256 has arrived all the same.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial

from services.common.errors import Reason, ServiceError
from services.common.observability.logs import get_logger
from services.storage.context import StorageContext
from services.storage.direct.confirm import confirm_object
from services.storage.index import client_uploads, contents
from services.storage.index.client_uploads import Unconfirmed
from services.storage.uploads.stream import UploadHeader

_MAX_ASKED = 1_000
_MAX_CONCURRENCY = 16
_SECONDS = 5.0
_BATCH = 100
# The answers by which an upload is over. Any other error, such as a deadline, says nothing of its bytes.
_OVER = (Reason.OBJECT_NOT_FOUND, Reason.OBJECT_REMOVED, Reason.QUOTA_EXCEEDED, Reason.REPOSITORY_NOT_FOUND)

_log = get_logger(__name__)


async def confirm_arrived(context: StorageContext, repository_id: int, oids: Collection[str]) -> None:
    """Confirm those of these objects that clients have brought to a store without a confirmation.

    It takes five seconds at most; what is not confirmed by then is missing for the caller. A store is asked of the same
    object once in five seconds. Raises `Unavailable` if the database does not answer.
    """
    signings = (store.backend.signing for store in context.stores.all)
    if not any(signing is not None and signing.signs_uploads for signing in signings):
        return
    pending = partial(client_uploads.pending, repository_id=repository_id, oids=oids, limit=_MAX_ASKED)
    found = [
        upload
        for upload in await context.database.run(pending)
        if context.recently_asked.take(upload.repository_id, upload.oid)
    ]
    free = asyncio.Semaphore(_MAX_CONCURRENCY)

    async def look(upload: Unconfirmed) -> None:
        async with free:
            try:
                await _confirm(context, upload)
            except ServiceError as error:
                _log.warning("a direct upload cannot be looked for", name=upload.name, message=error.message)

    with suppress(TimeoutError):
        async with asyncio.timeout(_SECONDS), asyncio.TaskGroup() as looking:
            for upload in found:
                looking.create_task(look(upload))


async def give_up_expired(context: StorageContext) -> None:
    """Abandon direct uploads that were not confirmed in time, after a last look for their bytes.

    An upload of which nothing is found out, because its store does not answer or the commit fails, is kept for the next
    time.
    """
    while expired := await context.database.run(partial(client_uploads.expired, limit=_BATCH)):
        names = await _lost(context, expired)
        await context.database.run(partial(contents.give_up, names=names))
        if len(names) < len(expired):
            return


async def _lost(context: StorageContext, expired: Sequence[Unconfirmed]) -> list[str]:
    """Return the names of the uploads that are over: confirmed now, or without the bytes."""
    names = []
    for upload in expired:
        try:
            await _confirm(context, upload)
        except ServiceError as error:
            _log.warning("a direct upload is not given up yet", name=upload.name, message=error.message)
        else:
            names.append(upload.name)
    return names


async def _confirm(context: StorageContext, upload: Unconfirmed) -> None:
    """Confirm an upload, unless it has not arrived, has no room, or was removed since.

    Raises the other errors of `confirm_object`, after which nobody knows.
    """
    header = UploadHeader(upload.repository_id, upload.oid, upload.size, upload.user_id or None)
    try:
        await confirm_object(context, header)
    except ServiceError as error:
        if error.reason not in _OVER:
            raise
