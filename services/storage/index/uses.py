"""The times at which objects were last used: announced to be written, or read.

An announcement is recorded before it is answered, because its caller will not upload what is held. A read is recorded
some seconds later, and once an hour.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Never

from services.common.concurrency.periodic import run_periodically
from services.common.errors import ServiceError
from services.common.observability.logs import get_logger
from services.database.statement import Statement
from services.database.transactions import Database
from services.storage.index.lookups import Located

ANNOUNCED_SECONDS = 10
"""An announcement within so many seconds after a recorded use is not recorded: collections allow for it."""

READ_SECONDS = 3600.0
"""A read within so many seconds after a recorded use is not recorded."""

_INTERVAL_SECONDS = 5.0
_MAX_WAITING = 100_000
_MAX_BATCH = 1_000

# The rows are locked in the order of all that lock several, so that no two deadlock.
_ANNOUNCE = f"""
    WITH used AS (
        SELECT repository_id, oid FROM storage.objects
        WHERE repository_id = $1::bigint AND oid = ANY($2::text[]) AND removed_at IS NULL
            AND (used_at IS NULL OR used_at < now() - interval '{ANNOUNCED_SECONDS} seconds')
        ORDER BY oid FOR NO KEY UPDATE
    )
    UPDATE storage.objects SET used_at = now() FROM used
    WHERE objects.repository_id = used.repository_id AND objects.oid = used.oid
    RETURNING objects.oid
"""  # noqa: S608 - our own number
_REVIVE = """
    WITH collected AS (
        SELECT repository_id, oid FROM storage.objects
        WHERE repository_id = $1::bigint AND oid = ANY($2::text[])
            AND is_collected AND removed_at IS NOT NULL AND bin_until IS NOT NULL
            AND EXISTS (SELECT FROM storage.contents WHERE contents.oid = objects.oid AND NOT is_doubted)
        ORDER BY oid FOR NO KEY UPDATE
    )
    UPDATE storage.objects
    SET removed_at = NULL, removal_reason = NULL, removed_by = NULL, bin_until = NULL, is_collected = false,
        used_at = now()
    FROM collected
    WHERE objects.repository_id = collected.repository_id AND objects.oid = collected.oid
    RETURNING objects.oid
"""
# Rows that somebody else has locked are being changed, which records a use or makes it void.
_READ = """
    WITH used AS (
        SELECT repository_id, oid FROM storage.objects
        JOIN unnest($1::bigint[], $2::text[]) AS read (repository_id, oid) USING (repository_id, oid)
        WHERE removed_at IS NULL FOR NO KEY UPDATE OF objects SKIP LOCKED
    )
    UPDATE storage.objects SET used_at = now() FROM used
    WHERE objects.repository_id = used.repository_id AND objects.oid = used.oid
"""

_log = get_logger(__name__)


async def record_announced(database: Database, repository_id: int, oids: Sequence[str]) -> set[str]:
    """Record that held objects are used now, and return those of which it was recorded.

    The others are not held any more, or a use of them was recorded in the last `ANNOUNCED_SECONDS`.
    """
    rows = await database.fetch(Statement(_ANNOUNCE, (repository_id, oids)))
    return {oid for (oid,) in rows}


async def revive(database: Database, repository_id: int, oids: Sequence[str]) -> set[str]:
    """Make a repository hold again those of these objects that lie in its bin as garbage, and return them.

    Objects without an undamaged blob are left out.
    """
    rows = await database.fetch(Statement(_REVIVE, (repository_id, oids)))
    return {oid for (oid,) in rows}


class ReadRecorder:
    """Records reads in the background. Its owner runs `run`, and calls `flush` at the end.

    Reads beyond `_MAX_WAITING` objects, while the database is away, are not recorded.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[tuple[int, str], None] = {}
        self._is_full = asyncio.Event()

    def note(self, repository_id: int, read: Iterable[Located]) -> None:
        """Note that objects are read now; those with a use in the last `READ_SECONDS` are passed over."""
        for located in read:
            if located.unused_seconds < READ_SECONDS or located.is_removed:
                continue
            if len(self._waiting) >= _MAX_WAITING:
                return
            self._waiting[repository_id, located.oid] = None
        if len(self._waiting) >= _MAX_BATCH:
            self._is_full.set()

    async def run(self) -> Never:
        """Record what was noted every few seconds, forever."""
        await run_periodically(
            self._record, _INTERVAL_SECONDS, trouble="reads of objects are not recorded", wake=self._is_full.wait
        )

    async def flush(self) -> None:
        """Record what was noted. Raises `Unavailable`."""
        while self._waiting:
            batch = list(self._waiting)[:_MAX_BATCH]
            await self._database.fetch(Statement(_READ, _columns(batch)))
            for key in batch:
                self._waiting.pop(key, None)

    async def _record(self) -> None:
        self._is_full.clear()
        try:
            await self.flush()
        except ServiceError:
            # An event that is set again at once would repeat this without a pause.
            self._is_full.clear()
            raise


def _columns(batch: Collection[tuple[int, str]]) -> tuple[list[int], list[str]]:
    return [repository_id for repository_id, _ in batch], [oid for _, oid in batch]
