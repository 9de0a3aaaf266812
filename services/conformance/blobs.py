"""Objects to transfer: bytes and the two values that name them."""

import hashlib
import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Blob:
    """Bytes, as a client knows them."""

    content: bytes

    @property
    def oid(self) -> str:
        """The SHA-256 in lower-case hex."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.content)

    @property
    def entry(self) -> dict[str, Any]:
        """The entry of a batch request, which is the body of a verify request too."""
        return {"oid": self.oid, "size": self.size}


def new_blob(size: int = 64) -> Blob:
    """Return random bytes, which no repository holds when there are more than a few."""
    return Blob(os.urandom(size))


def corrupted(content: bytes) -> bytes:
    """Return as many bytes, of which the last differs."""
    return content[:-1] + bytes([content[-1] ^ 1])
