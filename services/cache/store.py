"""The objects that a cache keeps: files by oid below its folder, the least recently used of which make room.

FOLDER/objects/ab/cd/OID   whole objects, whose hash was right when they came
FOLDER/fetches/            objects on their way; emptied at each start
FOLDER/lock                locked by the process that works on the folder
"""

import asyncio
import fcntl
import os
import shutil
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

from services.cache import metrics
from services.common.concurrency.uncancellable import run_in_thread, run_to_completion
from services.common.files import OwnedDescriptor
from services.common.observability.logs import get_logger
from services.common.oid import is_oid

# The unit in which file systems give room to files.
_BLOCK_BYTES = 4096
# The order of use outlives a restart in the times of files, which are written no more often than this.
_TOUCH_SECONDS = 60.0

_log = get_logger(__name__)


class Entry:
    """An object that is kept: its size in bytes, and its use."""

    __slots__ = ("oid", "readers", "size", "touched_at")

    def __init__(self, oid: str, size: int, touched_at: float) -> None:
        self.oid = oid
        self.size = size
        self.touched_at = touched_at
        self.readers = 0


class ObjectStore:
    """The folder of objects, which take at most `max_bytes`, rounded up to blocks, at any time.

    An object that is being read is not removed, because its bytes would stay until the last reader has closed it.
    """

    def __init__(self, folder: Path, max_bytes: int, found: list[tuple[str, int, float]]) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, Entry] = OrderedDict(
            (oid, Entry(oid, size, used_at)) for oid, size, used_at in found
        )
        self._used = sum(cost(size) for _, size, _ in found)
        self._room = asyncio.Event()
        metrics.MAX_BYTES.set(max_bytes)
        self._measure()

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path, max_bytes: int) -> AsyncIterator[Self]:
        """Lock a folder, made if it is missing, sweep it, and yield the store of what it has.

        Raises ValueError where another process works on the folder, or where it cannot be written.
        """
        lock = OwnedDescriptor()
        try:
            found = await run_in_thread(_open_folder, folder, lock)
            store = cls(folder, max_bytes, found)
            while store._used > max_bytes and (oldest := store._oldest_unread()):
                await store._evict(oldest)
            _log.info("the cache is open", objects=len(store._entries), bytes=store._used, max_bytes=max_bytes)
            yield store
        finally:
            lock.close()

    def fits(self, size: int) -> bool:
        """Return whether an object of this size can be kept at all."""
        return cost(size) <= self._max_bytes

    def has(self, oid: str, size: int) -> bool:
        """Return whether an object is kept; if so, it counts as used, as its download is about to follow."""
        entry = self._entries.get(oid)
        if entry is None or entry.size != size:
            return False
        self._entries.move_to_end(oid)
        return True

    async def open_object(self, oid: str, size: int, file: OwnedDescriptor) -> Entry | None:
        """Open an object that is kept; the caller gives the entry back by `close_object`, and closes the file.

        Return None, without waiting, where it is not kept. A file that was damaged since is dropped.
        """
        entry = self._entries.get(oid)
        if entry is None or entry.size != size:
            return None
        entry.readers += 1
        self._entries.move_to_end(oid)
        now = time.time()
        touches = now - entry.touched_at > _TOUCH_SECONDS
        if touches:
            entry.touched_at = now
        try:
            if await run_in_thread(_open_file, self.path(oid), size, file, touches):
                return entry
        except BaseException:
            file.close()
            self.close_object(entry)
            raise
        self.close_object(entry)
        await self.drop(entry)
        return None

    def close_object(self, entry: Entry) -> None:
        """End the use of an object."""
        entry.readers -= 1
        if not entry.readers:
            self._tell_of_room()

    async def reserve(self, size: int, wait_seconds: float) -> bool:
        """Make room for an object, and take it; return False where there is none within `wait_seconds`.

        The caller gives the room back by `release`, or by `keep`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        wanted = cost(size)
        if wanted > self._max_bytes:
            return False
        while self._used + wanted > self._max_bytes:
            if (oldest := self._oldest_unread()) is not None:
                await self._evict(oldest)
                continue
            try:
                async with asyncio.timeout_at(deadline):
                    await self._room.wait()
            except TimeoutError:
                return False
        self._used += wanted
        self._measure()
        return True

    def release(self, size: int) -> None:
        """Give the room of an object back that does not stay."""
        self._used -= cost(size)
        self._tell_of_room()

    def new_path(self) -> Path:
        """Return a path for an object on its way, which no other has."""
        return self._folder / "fetches" / os.urandom(16).hex()

    def path(self, oid: str) -> Path:
        """Return the path of an object that is kept."""
        return self._folder / "objects" / oid[:2] / oid[2:4] / oid

    def keep(self, oid: str, size: int, readers: int) -> Entry:
        """Count a file that was renamed to `path` as kept, in the room that was reserved for it; it has `readers`."""
        if (before := self._entries.pop(oid, None)) is not None:
            # The new file has replaced it; its readers give back an entry that is counted no more.
            self._used -= cost(before.size)
        entry = self._entries[oid] = Entry(oid, size, time.time())
        entry.readers = readers
        self._tell_of_room()
        return entry

    async def drop(self, entry: Entry) -> None:
        """Forget an object whose file is damaged."""
        if self._entries.get(entry.oid) is entry:
            _log.warning("a file of the cache is damaged and is dropped", oid=entry.oid)
            metrics.DAMAGED.labels("kept").inc()
            await self._remove(entry)

    async def _evict(self, entry: Entry) -> None:
        metrics.EVICTIONS.inc()
        await self._remove(entry)

    async def _remove(self, entry: Entry) -> None:
        del self._entries[entry.oid]
        await run_to_completion(self._unlink(entry))

    async def _unlink(self, entry: Entry) -> None:
        try:
            await run_in_thread(_remove, self.path(entry.oid))
        except OSError as error:
            # It goes on to be counted, as it goes on to take its bytes.
            _log.error("an object cannot be removed", oid=entry.oid, error=str(error))
            return
        self._used -= cost(entry.size)
        self._tell_of_room()

    def _oldest_unread(self) -> Entry | None:
        return next((entry for entry in self._entries.values() if not entry.readers), None)

    def _tell_of_room(self) -> None:
        self._measure()
        told, self._room = self._room, asyncio.Event()
        told.set()

    def _measure(self) -> None:
        metrics.BYTES.set(self._used)
        metrics.OBJECTS.set(len(self._entries))


def cost(size: int) -> int:
    """Return the room that an object of this size takes on a disk."""
    return max(1, -(-size // _BLOCK_BYTES)) * _BLOCK_BYTES


def _open_folder(folder: Path, lock: OwnedDescriptor) -> list[tuple[str, int, float]]:
    """Lock and sweep the folder; return oid, size and last use of its objects, the least recently used first."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"cache_directory: another process works on it: {folder}") from None
        for name in ("objects", "fetches"):
            (folder / name).mkdir(mode=0o700, exist_ok=True)
        for left in (folder / "fetches").iterdir():
            left.unlink()
        return sorted(_found(folder / "objects"), key=lambda found: found[2])
    except OSError as error:
        raise ValueError(f"cache_directory: {(error.strerror or str(error)).lower()}: {folder}") from error


def _found(objects: Path) -> Iterator[tuple[str, int, float]]:
    for first in _folders(objects):
        for second in _folders(first):
            with os.scandir(second) as files:
                for file in files:
                    if is_oid(file.name) and file.is_file(follow_symlinks=False):
                        status = file.stat(follow_symlinks=False)
                        yield file.name, status.st_size, status.st_mtime


def _folders(parent: Path) -> list[Path]:
    with os.scandir(parent) as entries:
        return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def _remove(path: Path) -> None:
    """Remove an object, and whatever else may have come into its place."""
    try:
        path.unlink(missing_ok=True)
    except IsADirectoryError:
        shutil.rmtree(path)


def _open_file(path: Path, size: int, file: OwnedDescriptor, touches: bool) -> bool:
    """Open a file if it has this size; return whether it has."""
    try:
        file.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    if file.regular_size() != size:
        file.close()
        return False
    if touches:
        with suppress(OSError):
            os.utime(file.number)
    return True
