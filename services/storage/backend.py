"""What the service asks of a place that holds bytes; tests/service/storage/test_backend_suite.py proves a backend."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class BytesMissing(Exception):
    """The backend has no bytes, or no longer all of them, under this oid."""


class Upload(Protocol):
    """Bytes on their way to one oid. Their truth (size, hash) is the caller's affair.

    Left before `publish`, nothing remains of it. Left after `publish` and before `settle`, what becomes of the
    bytes is left to `Backend.sweep`, as it is after a crash.
    """

    async def write(self, chunk: bytes) -> None:
        """Add bytes at the end. Raises `ResourceExhausted` (STORAGE_FULL) where no room is left."""

    async def flush(self) -> None:
        """Return when all bytes are durable, though not yet in place."""

    async def publish(self) -> None:
        """Put the bytes in place at once, durably, over any that are there. May be repeated.

        Cancelled, it ends first what it has begun: the oid's lock is held as long.
        """

    async def settle(self) -> None:
        """Note that the index holds what was published."""


class StoredBytes(Protocol):
    """The bytes of one object, open for reading; they stay readable while open, even when deleted or replaced."""

    @property
    def size(self) -> int:
        """How many there are."""

    def chunks(self, offset: int, length: int) -> AsyncIterator[bytes]:
        """Return `length` bytes from `offset` on, in pieces of at most `CHUNK_BYTES`.

        Raises `BytesMissing` where the bytes end earlier.
        """


class Backend(Protocol):
    """A place that holds bytes by oid. Oids are well-formed; anything else is a ValueError."""

    def begin(self, oid: str) -> AbstractAsyncContextManager[Upload]:
        """Begin an upload. Several of one oid may go on at once."""

    def open(self, oid: str) -> AbstractAsyncContextManager[StoredBytes]:
        """Open an object for reading. Raises `BytesMissing`."""

    async def sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """Return the sizes of those of `oids` whose bytes are here."""

    def stored(self) -> AsyncIterator[tuple[str, int]]:
        """Return the oid and the size of all that is here, ascending by oid.

        It holds a small part of them at a time. What comes or goes meanwhile may be among them or not.
        """

    async def delete(self, oid: str) -> None:
        """Delete an object's bytes, if they are here. Cancelled, it ends first what it has begun."""

    async def sweep(self, settle: Callable[[str], Awaitable[None]]) -> int:
        """Remove what uploads left whose writer is dead, and return how many there were.

        For each, `settle` is first called with its oid: the bytes may have been published without the index knowing.
        Uploads that live are left alone.
        """

    async def left_over(self) -> int:
        """Return how many uploads' remains the next `sweep` would remove."""

    async def available_bytes(self) -> int:
        """Return how many more bytes there is room for."""

    async def check(self) -> None:
        """Return if the backend can be read and written; else raise an error that says why not."""
