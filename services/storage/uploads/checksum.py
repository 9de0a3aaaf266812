"""Verification that uploaded bytes are the announced object."""

import hashlib

from services.common.concurrency.uncancellable import run_in_thread
from services.common.errors import InvalidArgument, Reason
from services.storage.backends.base import Chunk

# Hashing this much is cheaper than a thread hop.
_HASHED_HERE = 64 * 1024


class ChecksumVerifier:
    """Counts and hashes the bytes of one upload, and rejects anything but `size` bytes with the SHA-256 `oid`."""

    def __init__(self, oid: str, size: int) -> None:
        self._oid = oid
        self._size = size
        self._count = 0
        self._hash = hashlib.sha256()

    def count(self, chunk: Chunk) -> None:
        """Count a chunk. Raises `InvalidArgument` (SIZE_MISMATCH) at the first excess byte."""
        self._count += len(chunk)
        if self._count > self._size:
            raise InvalidArgument(Reason.SIZE_MISMATCH, f"expected {self._size} bytes, got more")

    async def hash(self, chunk: Chunk) -> None:
        """Hash a chunk, in a thread unless it is small."""
        if len(chunk) <= _HASHED_HERE:
            self._hash.update(chunk)
        else:
            await run_in_thread(self._hash.update, chunk)

    def finish(self) -> None:
        """Raise `InvalidArgument` (SIZE_MISMATCH, HASH_MISMATCH) unless the bytes are the object."""
        if self._count != self._size:
            raise InvalidArgument(Reason.SIZE_MISMATCH, f"expected {self._size} bytes, got {self._count}")
        if self._hash.hexdigest() != self._oid:
            raise InvalidArgument(
                Reason.HASH_MISMATCH, f"expected the SHA-256 {self._oid}, got {self._hash.hexdigest()}"
            )
