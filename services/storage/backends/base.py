"""Interface of the backends, which store blobs by name.

A blob name is used once (`services.storage.blob_names`), and the bytes under it never change. The index, not the
backend, knows which blob name belongs to an object, and which size and hash its bytes must have. Every backend passes
tests/service/storage/test_backend_suite.py.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from services.storage.backends.signing import Signing

Chunk = bytes | memoryview
"""Some of an object's bytes."""


class BytesMissing(Exception):
    """The backend has no blob under this name, or no longer all of its bytes."""


class Upload(Protocol):
    """An upload to one blob name. Nothing can be read under the name if the upload is left before `finish` returns.

    `Backend.delete` removes the bytes that a crash or an outage leaves behind.
    """

    async def write(self, chunk: Chunk) -> None:
        """Append bytes. Raises `ResourceExhausted` (STORAGE_FULL) if no room is left."""

    async def finish(self) -> None:
        """Put the blob in place atomically, and return when it is durable."""


class StoredBytes(Protocol):
    """A blob that is open for reading."""

    @property
    def size(self) -> int:
        """The size of the blob in bytes."""

    def chunks(self, offset: int, length: int) -> AsyncIterator[bytes]:
        """Return `length` bytes from `offset` on, in chunks of at most `CHUNK_BYTES`.

        Raises `BytesMissing` if the blob ends earlier, or is deleted during the read.
        """


class Backend(Protocol):
    """A place that stores blobs by name. Anything but a blob name raises ValueError.

    Every call may raise `Unavailable` if the place does not answer in time.
    """

    @property
    def is_remote(self) -> bool:
        """True if looking at a blob is a network request, which is too expensive for each object of a batch."""

    @property
    def signing(self) -> Signing | None:
        """The signers of URLs by which clients reach the place itself; None if it has none."""

    def create(self, name: str, size: int) -> AbstractAsyncContextManager[Upload]:
        """Begin an upload of `size` bytes, or fewer, to a blob name that was never used before."""

    async def put(self, contents: Mapping[str, Chunk]) -> None:
        """Store blobs under names that were never used before; all are durable when this returns.

        For few and small blobs, because all of them are in memory at once. Raises what `Upload` raises; the caller then
        does not know which blobs are in place, and removes them with `delete`.
        """

    def open(self, name: str) -> AbstractAsyncContextManager[StoredBytes]:
        """Open the blob under a name for reading. Raises `BytesMissing`."""

    def relative_path(self, name: str) -> str | None:
        """Return the path of a blob below a folder that other processes may read; None if there is no folder."""

    async def stat(self, names: Iterable[str]) -> dict[str, int]:
        """Return the sizes of those of the blobs `names` that are in place."""

    def list_blobs(self) -> AsyncIterator[tuple[str, int]]:
        """Return the name and the size of every blob in place, in ascending order of names.

        Only a small part of the list is in memory at a time. A blob that is stored or deleted meanwhile may or may not
        be listed.
        """

    async def delete(self, name: str) -> None:
        """Remove the blob under a name, in place or at any stage of its upload; it need not exist."""

    async def available_bytes(self) -> int | None:
        """Return how many more bytes fit; None if nothing limits them."""

    async def check(self) -> None:
        """Return if the backend can be read and written; raise an error with the reason if not."""
