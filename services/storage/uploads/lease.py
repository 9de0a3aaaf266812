"""The lease of a partial upload, by which one call of one process at a time adds to it."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Self

from services.common.concurrency.periodic import run_periodically
from services.common.concurrency.uncancellable import run_to_completion
from services.common.errors import ServiceError
from services.common.lifecycle import running
from services.common.observability.logs import get_logger
from services.storage.context import StorageContext
from services.storage.index import partial_uploads
from services.storage.index.partial_uploads import (
    MAX_PARTS,
    Part,
    PartialKey,
    count_parts_statement,
    in_progress,
    offset_mismatch,
    parts_statement,
    renew_statement,
)

_RENEW_SECONDS = 2.0

_log = get_logger(__name__)


class PartialUploadLease:
    """The lease of one call. It is extended while bytes come, or while `is_busy` is set."""

    def __init__(self, context: StorageContext, id_: int, holder: int) -> None:
        self._context = context
        self._id = id_
        self._holder = holder
        self._has_moved = False
        self._is_lost = False
        self._is_over = False
        self.is_busy = False

    @classmethod
    @asynccontextmanager
    async def take(cls, context: StorageContext, key: PartialKey, *, offset: int) -> AsyncIterator[Self]:
        """Take the lease of an upload that has `offset` bytes, and give it back at the end of the block.

        Raises what `partial_uploads.take` raises.
        """
        holder = secrets.randbits(63)
        take = partial(partial_uploads.take, key=key, holder=holder, offset=offset, kept=context.partial_uploads_kept)
        taken = await context.database.run(take)
        if taken.has_discarded:
            context.sweep_wanted.set()
        lease = cls(context, taken.id, holder)
        try:
            async with running(lease._renew()):
                yield lease
        finally:
            await run_to_completion(lease._release())

    def moved(self) -> None:
        """Note that bytes have come. Raises `Aborted` (UPLOAD_IN_PROGRESS) if another call has taken the lease."""
        if self._is_lost:
            raise in_progress()
        self._has_moved = True

    async def parts(self) -> list[Part]:
        """Return the parts of the upload, in order."""
        rows = await self._context.database.fetch(parts_statement(self._id))
        return [partial_uploads.part_of(*row) for row in rows]

    async def require_few_parts(self, offset: int) -> None:
        """Discard an upload with too many parts, and raise `FailedPrecondition` (OFFSET_MISMATCH)."""
        [[count]] = await self._context.database.fetch(count_parts_statement(self._id))
        if count >= MAX_PARTS:
            await self.discard()
            raise offset_mismatch(0, offset)

    async def add(self, start: int, part: Part) -> datetime:
        """Add a part that is in place; return when the upload expires. Raises what `partial_uploads.add_part` raises.

        If it raises, the part is not added, and its blob is still a pending one.
        """
        work = partial(
            partial_uploads.add_part,
            upload_id=self._id,
            holder=self._holder,
            start=start,
            part=part,
            kept=self._context.partial_uploads_kept,
        )
        return await self._context.database.run(work)

    async def discard(self) -> None:
        """Forget the upload, and let its parts be deleted."""
        discard = partial(partial_uploads.discard, upload_id=self._id, holder=self._holder)
        await self._context.database.run(discard)
        self._is_over = True
        self._context.sweep_wanted.set()

    async def _renew(self) -> None:
        await run_periodically(self._renew_once, _RENEW_SECONDS, trouble="the lease of a partial upload is not renewed")

    async def _renew_once(self) -> None:
        if self._has_moved or self.is_busy:
            self._has_moved = False
            self._is_lost = not await self._context.database.fetch(renew_statement(self._id, self._holder))

    async def _release(self) -> None:
        if self._is_over:
            return
        try:
            release = partial(partial_uploads.release, upload_id=self._id, holder=self._holder)
            await self._context.database.run(release, patient=False)
        except ServiceError as error:
            _log.warning("the lease of a partial upload ends by itself", message=error.message)
