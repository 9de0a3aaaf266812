"""Interface of URL signing: clients use signed URLs to reach blobs in the store without this service."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class SignedUrl:
    """A signed URL of the store. The URL alone gives access, so it is never logged."""

    url: str = field(repr=False)
    headers: Mapping[str, str]
    expires_at: datetime.datetime


@dataclass(frozen=True)
class StoredFacts:
    """The store's own record of a blob: its size, and its SHA-256 in hexadecimal; None if the store has no SHA-256."""

    size: int
    sha256: str | None


class Signer(Protocol):
    """Signs URLs below one endpoint of the store. Every call may raise `Unavailable`.

    A URL is valid for `seconds`, or until the credentials that signed it expire.
    """

    async def downloads(self, names: Sequence[str], seconds: int) -> list[SignedUrl]:
        """Return URLs for GET, in order."""

    async def uploads(self, contents: Sequence[tuple[str, int]], seconds: int) -> list[SignedUrl]:
        """Return URLs for PUT of (name, size in bytes), in order.

        Each URL is bound to that size and to the SHA-256 in the blob name, which the store compares with the bytes.
        """

    async def facts(self, name: str) -> StoredFacts | None:
        """Return the store's record of the blob under a name; None if there is no blob."""

    def copying_headers(self, name: str) -> Mapping[str, str]:
        """Return headers that ask the store to copy the blob under a name instead of storing the body of a PUT.

        No URL of `uploads` allows such a copy: the probe tests that.
        """


@dataclass(frozen=True)
class Signing:
    """The signers of a backend."""

    outside: Signer
    """For clients."""
    inside: Signer
    """At the endpoint by which this service reaches the store; of the same blobs."""
    signs_uploads: bool
    """True if `uploads`, `facts` and `copying_headers` can be called."""
    is_reachable: bool
    """True if clients can be expected to reach the URLs of `outside`."""
