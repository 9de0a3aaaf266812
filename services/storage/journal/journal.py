"""The journal of one disk, written by one process."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from services.common.errors import ServiceError
from services.common.observability.logs import get_logger
from services.database.transactions import Database
from services.storage.backends.base import Chunk
from services.storage.backends.disk import DiskBackend
from services.storage.backends.disk.durable import is_synced_as_a_whole, sync_file_system, sync_folder
from services.storage.backends.disk.errors import on_disk
from services.storage.journal import table
from services.storage.journal.recovery import Recovery
from services.storage.journal.segment import NO_LOCKS, Segment, segments

SEGMENT_SECONDS = 10.0
"""The time for which objects are added to a segment; meanwhile the kernel begins to write their files by itself."""

_SEGMENT_BYTES = 64 * 1024 * 1024
_SEGMENT_OBJECTS = 10_000
# Bounds the bytes that are on the disk twice, and the segments that a start has to recover.
_MAX_SEGMENTS = 4

_log = get_logger(__name__)


@dataclass(eq=False)
class _Written:
    """A segment that this process has written."""

    file: Segment
    since: float
    appending: threading.Lock = field(default_factory=threading.Lock)
    names: list[str] = field(default_factory=list)
    uncommitted: list[str] = field(default_factory=list)
    """Names that may or may not have been committed."""
    users: int = 0
    """The number of batches in the segment that are neither committed nor abandoned yet."""
    is_doubtful: bool = False
    """True if the files may not be durable even though a sync of them succeeds."""

    @property
    def is_full(self) -> bool:
        return self.file.is_broken or self.file.size >= _SEGMENT_BYTES or len(self.names) >= _SEGMENT_OBJECTS


class Journal:
    """Writes small objects to a disk: durably to a segment, and to their files, which are synced later.

    Its owner calls `tidy` about every second, and `close` when nothing is written any more.
    """

    def __init__(self, database: Database, store_id: int, backend: DiskBackend, *, is_synced_as_a_whole: bool) -> None:
        self._database = database
        self._store_id = store_id
        self._backend = backend
        self._folder = backend.journal_folder
        self._is_synced_as_a_whole = is_synced_as_a_whole
        self._recovery = Recovery(database, store_id, backend)
        self._current: _Written | None = None
        self._full: list[_Written] = []
        self._settled = asyncio.Event()
        self._choosing = asyncio.Lock()
        self._tidying = asyncio.Lock()

    @classmethod
    async def open(cls, database: Database, store_id: int, backend: DiskBackend) -> Self | None:
        """Return the journal of a store; None if its file system has no file locks. Raises `Unavailable`."""

        def prepare() -> bool | None:
            backend.journal_folder.mkdir(exist_ok=True)
            try:
                file = Segment.create(backend.journal_folder)
            except OSError as error:
                if error.errno in NO_LOCKS:
                    return None
                raise
            file.remove()
            file.close()
            sync_folder(backend.root)
            return is_synced_as_a_whole(backend.root)

        whole = await on_disk(prepare)
        return None if whole is None else cls(database, store_id, backend, is_synced_as_a_whole=whole)

    @asynccontextmanager
    async def written(self, contents: Mapping[str, Chunk]) -> AsyncIterator[Segment]:
        """Put blobs in place durably, under names that were never used before, and yield their segment.

        Within the context the caller may commit the objects by the segment's name. If the context ends with an
        exception, blobs that were not committed are deleted later. Raises what `Backend.put` raises; then no blob is in
        place.
        """
        async with self._choosing:
            segment = await self._writable()
        segment.users += 1
        try:
            await on_disk(self._write, segment, contents)
            yield segment.file
        except BaseException:
            segment.uncommitted += contents
            raise
        finally:
            segment.users -= 1

    async def tidy(self) -> None:
        """Release segments that are old or full, and take over segments that other processes have left.

        Raises what the disk and the database raise; the next call does the rest.
        """
        async with self._tidying:
            if self._current and time.monotonic() > self._current.since + SEGMENT_SECONDS:
                self._retire(self._current)
            await self._settle()
            for path in await on_disk(segments, self._folder):
                if (segment := await on_disk(Segment.take_over, path)) is not None:
                    await self._recovery.take_over(segment)

    async def close(self) -> None:
        """Release all segments. Raises what the disk and the database raise; another process then takes over."""
        async with self._tidying:
            if self._current:
                self._retire(self._current)
            await self._settle()

    async def _writable(self) -> _Written:
        while self._current is None or self._current.is_full:
            if self._current:
                self._retire(self._current)
            elif len(self._full) >= _MAX_SEGMENTS:
                self._settled.clear()
                await self._settled.wait()
            else:
                self._current = await self._begun()
        return self._current

    async def _begun(self) -> _Written:
        file = await on_disk(Segment.create, self._folder)
        try:
            await self._database.run(partial(table.open_segment, name=file.name, store_id=self._store_id))
        except BaseException:
            await on_disk(file.remove)
            await on_disk(file.close)
            raise
        return _Written(file, time.monotonic())

    def _write(self, segment: _Written, contents: Mapping[str, Chunk]) -> None:
        # Only the append is locked, so that the next batch is appended while the files of this batch are written.
        with segment.appending:
            segment.file.append(contents)
            segment.names += contents
        self._backend.write(contents)

    def _retire(self, segment: _Written) -> None:
        self._current = None
        self._full.append(segment)

    async def _settle(self) -> None:
        """Sync the files of full segments that are no longer in use, and remove these segments."""
        for segment in [full for full in self._full if not full.users]:
            await self._make_durable(segment)
            await self._database.run(partial(table.close_segment, name=segment.file.name))
            await self._recovery.discard_uncommitted(segment.uncommitted)
            await on_disk(segment.file.remove)
            # Before the close: a call that is cancelled amid it must leave no closed segment to the next one.
            self._full.remove(segment)
            self._settled.set()
            await on_disk(segment.file.close)

    async def _make_durable(self, segment: _Written) -> None:
        if not segment.is_doubtful:
            # The kernel reports a failed write only once: if this attempt is cut short, a later sync proves nothing.
            segment.is_doubtful = True
            try:
                await on_disk(self._sync, segment)
            except ServiceError as error:
                _log.error("files are not durable, and are written anew", error=repr(error.__cause__))
            else:
                segment.is_doubtful = False
        if segment.is_doubtful:
            await self._recovery.rewrite(segment.file)

    def _sync(self, segment: _Written) -> None:
        if self._is_synced_as_a_whole:
            # Through the segment's file, which was opened before the files were written: it gets every failed write.
            sync_file_system(segment.file.fileno())
        else:
            self._backend.sync(segment.names)
