"""What the service asks of a place that holds bytes; tests/service/storage/test_backend_suite.py proves a backend.

Bytes are put in place under a name that is used once (`services.storage.blob_names`), and never change there. Which
name holds an object's bytes is the index's affair, and so is the truth of the bytes (size, hash).
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from services.storage.backends.signing import Signing

Chunk = bytes | memoryview
"""Some of an object's bytes."""


class BytesMissing(Exception):
    """The backend has no bytes, or no longer all of them, under this name."""


class Upload(Protocol):
    """Bytes on their way to one name. Left before `finish` has returned, nothing can be read under it.

    Bytes that a crash or an outage leaves behind go by `Backend.delete`.
    """

    async def write(self, chunk: Chunk) -> None:
        """Add bytes at the end. Raises `ResourceExhausted` (STORAGE_FULL) where no room is left."""

    async def finish(self) -> None:
        """Put the bytes in place at once, and return when they are durable there."""


class StoredBytes(Protocol):
    """Bytes open for reading."""

    @property
    def size(self) -> int:
        """How many there are."""

    def chunks(self, offset: int, length: int) -> AsyncIterator[bytes]:
        """Return `length` bytes from `offset` on, in pieces of at most `CHUNK_BYTES`.

        Raises `BytesMissing` where the bytes end earlier, or were discarded meanwhile.
        """


class Backend(Protocol):
    """A place that holds bytes by name. Anything but a name is a ValueError.

    Every call may raise `Unavailable` where the place does not answer in time.
    """

    @property
    def is_remote(self) -> bool:
        """Whether looking at bytes is a request over a network, too dear to be made for each object of a batch."""

    @property
    def signing(self) -> Signing | None:
        """How clients get addresses of the place itself; None where it has none."""

    def create(self, name: str, size: int) -> AbstractAsyncContextManager[Upload]:
        """Begin an upload of `size` bytes to a name that was never used before."""

    async def put(self, contents: Mapping[str, Chunk]) -> None:
        """Put bytes in place under names that were never used before; all are durable when this returns.

        For few of them, and small ones: they are held in memory. Raises what `Upload` raises; then nobody knows which
        are there, and they go by `discard`.
        """

    def open(self, name: str) -> AbstractAsyncContextManager[StoredBytes]:
        """Open what is in place under a name for reading. Raises `BytesMissing`."""

    def relative_path(self, name: str) -> str | None:
        """Return the path of a name's bytes below a folder that other processes may read; None where there is none."""

    async def stat(self, names: Iterable[str]) -> dict[str, int]:
        """Return the sizes of what is in place under those of `names` that have bytes."""

    def list_blobs(self) -> AsyncIterator[tuple[str, int]]:
        """Return the name and the size of all that is in place, ascending by name.

        It holds a small part of them at a time. What comes or goes meanwhile may be among them or not.
        """

    async def delete(self, name: str) -> None:
        """Remove what is under a name, in place or on its way, however far an upload has come; there may be nothing."""

    async def available_bytes(self) -> int | None:
        """Return how many more bytes there is room for; None where nothing bounds them."""

    async def check(self) -> None:
        """Return if the backend can be read and written; else raise an error that says why not."""
