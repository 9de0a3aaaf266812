"""A backend that holds bytes in memory: it shows that the service needs no disk, and lets tests look inside."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from services.common.oid import is_oid
from services.common.rpc.options import CHUNK_BYTES
from services.storage.backend import BytesMissing
from services.storage.refusals import storage_full


@dataclass(eq=False)
class MemoryUpload:
    """One upload; see `services.storage.backend.Upload`."""

    backend: "MemoryBackend"
    oid: str
    content: bytearray = field(default_factory=bytearray)
    lives: bool = True
    left_to_sweep: bool = False

    async def write(self, chunk: bytes) -> None:
        """Add bytes at the end."""
        if len(chunk) > await self.backend.available_bytes():
            raise storage_full()
        self.content += chunk

    async def flush(self) -> None:
        """Return: what lies in memory is as durable as it will be."""

    async def publish(self) -> None:
        """Put the bytes in place."""
        self.left_to_sweep = True
        self.backend.objects[self.oid] = bytes(self.content)

    async def settle(self) -> None:
        """Leave nothing to a sweep."""
        self.left_to_sweep = False


@dataclass(frozen=True)
class MemoryBytes:
    """Bytes open for reading; see `services.storage.backend.StoredBytes`."""

    content: bytes

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.content)

    async def chunks(self, offset: int, length: int) -> AsyncIterator[bytes]:
        """Return bytes in pieces."""
        end = offset + length
        for start in range(offset, min(end, self.size), CHUNK_BYTES):
            yield self.content[start : min(start + CHUNK_BYTES, end)]
        if end > self.size:
            raise BytesMissing(f"{self.size} bytes are there, expected {end}")


class MemoryBackend:
    """Objects by oid, and the uploads that go on or were left; see `services.storage.backend.Backend`."""

    def __init__(self, capacity: int = 1 << 30) -> None:
        self.capacity = capacity
        self.objects: dict[str, bytes] = {}
        self.uploads: list[MemoryUpload] = []
        self.broken: Exception | None = None

    @asynccontextmanager
    async def begin(self, oid: str) -> AsyncIterator[MemoryUpload]:
        """Begin an upload."""
        self._check(oid)
        upload = MemoryUpload(self, oid)
        self.uploads.append(upload)
        try:
            yield upload
        finally:
            upload.lives = False
            if not upload.left_to_sweep:
                self.uploads.remove(upload)

    @asynccontextmanager
    async def open(self, oid: str) -> AsyncIterator[MemoryBytes]:
        """Open an object."""
        self._check(oid)
        if oid not in self.objects:
            raise BytesMissing("no bytes are there")
        yield MemoryBytes(self.objects[oid])

    async def sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """Return the sizes of those that are there."""
        return {self._check(oid): len(self.objects[oid]) for oid in oids if oid in self.objects}

    async def stored(self) -> AsyncIterator[tuple[str, int]]:
        """Return what is there."""
        for oid in sorted(self.objects):
            yield oid, len(self.objects[oid])

    async def delete(self, oid: str) -> None:
        """Delete an object."""
        self.objects.pop(self._check(oid), None)

    async def sweep(self, settle: Callable[[str], Awaitable[None]]) -> int:
        """Remove the uploads that were left."""
        left = [upload for upload in self.uploads if not upload.lives]
        for upload in left:
            await settle(upload.oid)
            self.uploads.remove(upload)
        return len(left)

    async def left_over(self) -> int:
        """Return how many uploads were left."""
        return sum(not upload.lives for upload in self.uploads)

    async def available_bytes(self) -> int:
        """Return what the capacity leaves."""
        taken = sum(map(len, self.objects.values())) + sum(len(upload.content) for upload in self.uploads)
        return self.capacity - taken

    async def check(self) -> None:
        """Return unless it has been told to be broken."""
        if self.broken is not None:
            raise self.broken

    @staticmethod
    def _check(oid: str) -> str:
        if not is_oid(oid):
            raise ValueError(f"oid: expected 64 lower-case hexadecimal digits, got {oid!r}")
        return oid
