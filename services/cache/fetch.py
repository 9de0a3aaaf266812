"""One object on its way from the upstream: written to a file while it is hashed, and read by all who ask for it."""

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import ParamSpec

from services.cache.source import check_hash, read_object
from services.cache.store import Entry, ObjectStore
from services.cache.tokens import Grant
from services.cache.upstream import Upstream
from services.common.concurrency.uncancellable import run_in_thread, run_to_completion
from services.common.errors import Reason, ServiceError, Unavailable
from services.common.files import OwnedDescriptor

HELD_BACK_BYTES = 64 * 1024
"""The last bytes of an object, which nobody gets before its hash is known to be right."""

# A fetch that nobody reads any more goes on for this time, because its clients may come again.
_ABANDONED_SECONDS = 300.0
_WRITE_BYTES = 512 * 1024
_WRITE_SECONDS = 0.1

Parameters = ParamSpec("Parameters")


class NoRoom(Unavailable):
    """An object cannot be kept, because all that is kept is being read, or the disk does not take it."""

    def __init__(self, problem: str) -> None:
        super().__init__(Reason.STORAGE_FULL, f"the cache cannot keep the object: {problem}")


class Fetch:
    """The file of one object that is being fetched, and those who read it.

    The file is open until the fetch has ended and all readers have left; in it, an object takes its room.
    """

    def __init__(self, grant: Grant, store: ObjectStore) -> None:
        self.grant = grant
        self.file = OwnedDescriptor()
        self.is_reserved = False
        """True while the fetch has the room that its file takes."""
        self.error: ServiceError | None = None
        self.give_up: Callable[[], object] | None = None
        """The function that ends the fetch, called once nobody has read it for `_ABANDONED_SECONDS`."""
        self._store = store
        self._abandoned: asyncio.TimerHandle | None = None
        self._readers = 0
        self._has_ended = False
        self._entry: Entry | None = None
        self._written = 0
        self._news = asyncio.Event()

    def join(self) -> None:
        """Add a reader, who leaves by `leave`."""
        self._readers += 1
        self._stop_timer()

    async def leave(self) -> None:
        """Remove a reader; the last one closes the file of a fetch that has ended."""
        self._readers -= 1
        if self._entry is not None:
            self._store.close_object(self._entry)
        elif not (self._readers or self._has_ended) and self.give_up is not None:
            self._abandoned = asyncio.get_running_loop().call_later(_ABANDONED_SECONDS, self.give_up)
        await self._close_unless_needed()

    async def wait_for(self, position: int) -> int:
        """Return the number of readable bytes once it exceeds a position, or all are readable.

        Raises the error that has ended the fetch.
        """
        while True:
            if self.error is not None:
                raise self.error
            readable = max(0, min(self._written, self.grant.size - HELD_BACK_BYTES))
            if self._entry is not None:
                return self.grant.size
            if readable > position:
                return readable
            await self._news.wait()

    def advance(self, count: int) -> None:
        """Count bytes that were written."""
        self._written += count
        self._tell()

    def keep(self) -> None:
        """Let the store keep the file, which has its final name, and all readers read to the end."""
        self._entry = self._store.keep(self.grant.oid, self.grant.size, self._readers)
        self.is_reserved = False
        self._tell()

    def fail(self, error: ServiceError) -> None:
        """Let all readers fail."""
        self.error = error
        self._tell()

    async def end(self) -> None:
        """Close the file, unless there are readers."""
        self._has_ended = True
        self._stop_timer()
        await self._close_unless_needed()

    async def _close_unless_needed(self) -> None:
        if not self._has_ended or self._readers:
            return
        try:
            await run_in_thread(self.file.close)
        finally:
            if self.is_reserved:
                self.is_reserved = False
                self._store.release(self.grant.size)

    def _stop_timer(self) -> None:
        if self._abandoned is not None:
            self._abandoned.cancel()
            self._abandoned = None

    def _tell(self) -> None:
        told, self._news = self._news, asyncio.Event()
        told.set()


async def write(fetch: Fetch, upstream: Upstream, store: ObjectStore) -> None:
    """Fetch the object into its file, whose room is reserved, and let the store keep it.

    Raises the errors of `source.read_object`, `DataLoss` (OBJECT_DAMAGED) for a wrong hash, and `NoRoom` where the disk
    does not take it.
    """
    grant = fetch.grant
    path = store.new_path()
    try:
        await _disk(fetch.file.open, path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        hashed = hashlib.sha256()
        async with aclosing(_pieces(read_object(upstream, grant))) as pieces:
            async for piece in pieces:
                await _disk(_append, fetch.file.number, piece, hashed)
                fetch.advance(sum(map(len, piece)))
        check_hash(grant, hashed)
        await run_to_completion(_keep(fetch, path, store.path(grant.oid)))
    except BaseException:
        await run_in_thread(path.unlink, missing_ok=True)
        raise


async def _keep(fetch: Fetch, path: Path, final: Path) -> None:
    await _disk(_finish, fetch.file.number, path, final)
    fetch.keep()


async def _pieces(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[list[bytes], None]:
    """Yield the chunks in groups that are worth a call of the disk, and no later than readers would notice."""
    loop = asyncio.get_running_loop()
    held: list[bytes] = []
    count, since = 0, loop.time()
    async with aclosing(chunks):
        async for chunk in chunks:
            held.append(chunk)
            count += len(chunk)
            if count >= _WRITE_BYTES or loop.time() - since >= _WRITE_SECONDS:
                yield held
                held, count, since = [], 0, loop.time()
    if held:
        yield held


async def _disk(function: Callable[Parameters, object], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
    try:
        await run_in_thread(function, *args, **kwargs)
    except OSError as error:
        raise NoRoom(f"the disk does not take it: {error.strerror}") from error


def _append(file: int, piece: list[bytes], hashed: "hashlib._Hash") -> None:
    rest = memoryview(b"".join(piece))
    hashed.update(rest)
    while rest:
        rest = rest[os.write(file, rest) :]


def _finish(file: int, path: Path, final: Path) -> None:
    """Make a file durable under its final name: whole after a power cut, or not there."""
    os.fsync(file)
    final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.rename(final)
