"""A backend that holds bytes in memory: it shows that the service needs no disk, and lets tests look inside."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from services.common.rpc.options import CHUNK_BYTES
from services.storage.backends.base import BytesMissing, Chunk
from services.storage.blob_names import checked
from services.storage.errors import storage_full


@dataclass(eq=False)
class MemoryUpload:
    """One upload; see `services.storage.backends.base.Upload`."""

    backend: "MemoryBackend"
    name: str
    content: bytearray = field(default_factory=bytearray)

    async def write(self, chunk: Chunk) -> None:
        """Add bytes at the end."""
        if len(chunk) > await self.backend.available_bytes():
            raise storage_full()
        self.content += chunk

    async def finish(self) -> None:
        """Put the bytes in place."""
        self.backend.contents[self.name] = bytes(self.content)


@dataclass(frozen=True)
class MemoryBytes:
    """Bytes open for reading; see `services.storage.backends.base.StoredBytes`."""

    content: bytes

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.content)

    async def chunks(self, offset: int, length: int) -> AsyncIterator[bytes]:
        """Return bytes in pieces."""
        end = offset + length
        for start in range(offset, min(end, self.size), CHUNK_BYTES):
            yield self.content[start : min(start + CHUNK_BYTES, end)]
        if end > self.size:
            raise BytesMissing(f"{self.size} bytes are there, expected {end}")


class MemoryBackend:
    """Bytes by name, and the uploads that go on; see `services.storage.backends.base.Backend`."""

    is_remote = False
    signing = None

    def __init__(self, capacity: int = 1 << 30) -> None:
        self.capacity = capacity
        self.contents: dict[str, bytes] = {}
        self.uploads: list[MemoryUpload] = []
        self.broken: Exception | None = None

    @asynccontextmanager
    async def create(self, name: str, size: int) -> AsyncIterator[MemoryUpload]:
        """Begin an upload."""
        upload = MemoryUpload(self, checked(name))
        self.uploads.append(upload)
        try:
            yield upload
        finally:
            self.uploads.remove(upload)

    async def put(self, contents: Mapping[str, Chunk]) -> None:
        """Put one after the other."""
        for name, data in contents.items():
            async with self.create(name, len(data)) as upload:
                await upload.write(data)
                await upload.finish()

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[MemoryBytes]:
        """Open what is in place."""
        if checked(name) not in self.contents:
            raise BytesMissing("no bytes are there")
        yield MemoryBytes(self.contents[name])

    def relative_path(self, name: str) -> None:
        """Return none."""

    async def stat(self, names: Iterable[str]) -> dict[str, int]:
        """Return the sizes of those that are there."""
        return {checked(name): len(self.contents[name]) for name in names if name in self.contents}

    async def list_blobs(self) -> AsyncIterator[tuple[str, int]]:
        """Return what is there."""
        for name in sorted(self.contents):
            yield name, len(self.contents[name])

    async def delete(self, name: str) -> None:
        """Remove what is there."""
        self.contents.pop(checked(name), None)

    async def available_bytes(self) -> int:
        """Return what the capacity leaves."""
        taken = sum(map(len, self.contents.values())) + sum(len(upload.content) for upload in self.uploads)
        return self.capacity - taken

    async def check(self) -> None:
        """Return unless it has been told to be broken."""
        if self.broken is not None:
            raise self.broken
