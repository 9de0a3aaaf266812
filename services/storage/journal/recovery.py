"""Recovery of a segment: its objects are written to their files after a crash, or after a failed write of the disk."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from services.common.observability.logs import get_logger
from services.database.transactions import Database
from services.storage.backends.disk import DiskBackend
from services.storage.backends.disk.errors import on_disk
from services.storage.journal import table
from services.storage.journal.segment import Record, Segment

# Bounds the objects in memory.
_BATCH = 32

_log = get_logger(__name__)


class Recovery:
    """Recovers segments of one store; a retry does not repeat the files that an earlier attempt has written."""

    def __init__(self, database: Database, store_id: int, backend: DiskBackend) -> None:
        self._database = database
        self._store_id = store_id
        self._backend = backend
        # The blob names of the files written so far, by segment.
        self._written: dict[str, set[str]] = {}

    async def take_over(self, segment: Segment) -> None:
        """Write the committed objects of a segment to their files, remove the others, and then the segment itself.

        Raises `Unavailable` and `ResourceExhausted`; the segment then stays. It is closed in any case.
        """
        try:
            # From here on nothing of the segment can be committed any more, even if its process still lives.
            await self._database.run(partial(table.close_segment, name=segment.name))
            count = await self.rewrite(segment)
            await on_disk(segment.remove)
        finally:
            await on_disk(segment.close)
        _log.info("brought objects of a journal to their files", segment=segment.name, count=count)

    async def rewrite(self, segment: Segment) -> int:
        """Write the files of a segment's committed objects anew, and remove the others; return the number written.

        Existing files are replaced because the kernel may have bytes in memory that the disk lacks. Raises as
        `take_over` does.
        """
        written, records = self._written.setdefault(segment.name, set()), segment.records()
        while batch := await on_disk(_next, records):
            names = [record.name for record in batch]
            committed = await self._database.run(partial(table.committed, store_id=self._store_id, names=names))
            for record in batch:
                if record.name in committed and record.name not in written:
                    await on_disk(self._backend.rewrite, record.name, record.data)
                    written.add(record.name)
            # Some objects may have been discarded meanwhile, before their files were written again.
            await self.discard_uncommitted(names)
        del self._written[segment.name]
        return len(written)

    async def discard_uncommitted(self, names: Sequence[str]) -> None:
        """Remove the files of blob names that belong to no object, and never will."""
        for some in (names[start : start + _BATCH] for start in range(0, len(names), _BATCH)):
            for name in await self._database.run(partial(table.uncommitted, store_id=self._store_id, names=some)):
                try:
                    await self._backend.delete(name)
                except (IsADirectoryError, NotADirectoryError) as error:
                    _log.error("something is in the place of a file", name=name, error=repr(error))


def _next(records: Iterator[Record]) -> Sequence[Record]:
    return list(islice(records, _BATCH))
