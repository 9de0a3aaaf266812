"""Objects of a segment brought to their files: what a crash has cut off, or the disk has failed to write."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from services.common.logs import get_logger
from services.database.transactions import Database
from services.storage.disk import DiskBackend
from services.storage.disk.errors import on_disk
from services.storage.journal import table
from services.storage.journal.segment import Record, Segment

# So many are in memory.
_BATCH = 32

_log = get_logger(__name__)


async def take_over(database: Database, store_id: int, backend: DiskBackend, segment: Segment) -> None:
    """Bring what was committed of a segment to its files, remove what was not, and then the segment itself.

    Raises `Unavailable` and `ResourceExhausted`; the segment is kept then. It is closed in any case.
    """
    try:
        # From here on nothing more of it is committed, should its process still live.
        await database.run(partial(table.close_segment, name=segment.name))
        count = await rewrite(database, store_id, backend, segment)
        await on_disk(segment.remove)
    finally:
        await on_disk(segment.close)
    _log.info("brought objects of a journal to their files", segment=segment.name, count=count)


async def rewrite(database: Database, store_id: int, backend: DiskBackend, segment: Segment) -> int:
    """Write the files of objects anew that are in a segment; return how many. What was not committed is removed.

    Whatever is there is written over, as the kernel may have in memory what the disk lacks.
    """
    count, records = 0, segment.records()
    while batch := await on_disk(_next, records):
        names = [record.name for record in batch]
        committed = await database.run(partial(table.committed, store_id=store_id, names=names))
        await on_disk(backend.rewrite, {record.name: record.data for record in batch if record.name in committed})
        # Some may have been discarded meanwhile, before their files were there again.
        await discard_uncommitted(database, store_id, backend, names)
        count += len(committed)
    return count


async def discard_uncommitted(database: Database, store_id: int, backend: DiskBackend, names: Sequence[str]) -> None:
    """Remove the files of names under which no object has its bytes, and never will."""
    for some in (names[start : start + _BATCH] for start in range(0, len(names), _BATCH)):
        for name in await database.run(partial(table.uncommitted, store_id=store_id, names=some)):
            await backend.discard(name)


def _next(records: Iterator[Record]) -> Sequence[Record]:
    return list(islice(records, _BATCH))
