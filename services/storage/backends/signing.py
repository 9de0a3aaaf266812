"""What the service asks of a store that signs addresses, by which clients reach the bytes without this service."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class SignedUrl:
    """An address of the store. Whoever knows it may use it, so it is never logged."""

    url: str = field(repr=False)
    headers: Mapping[str, str]
    expires_at: datetime.datetime


@dataclass(frozen=True)
class StoredFacts:
    """What the store itself says of bytes: how many, and their SHA-256 in hexadecimal; None where it has none."""

    size: int
    sha256: str | None


class Signer(Protocol):
    """Signs addresses below one endpoint of the store. Every call may raise `Unavailable`.

    The addresses are good for `seconds`, or until the credentials end that they are signed with.
    """

    async def downloads(self, names: Sequence[str], seconds: int) -> list[SignedUrl]:
        """Return addresses for GET, in order."""

    async def uploads(self, contents: Sequence[tuple[str, int]], seconds: int) -> list[SignedUrl]:
        """Return addresses for PUT of (name, size in bytes), in order.

        Each is bound to that size and to the SHA-256 that the name tells, which the store compares with the bytes.
        """

    async def facts(self, name: str) -> StoredFacts | None:
        """Return what the store says of the bytes under a name; None where there are none."""

    def copying_headers(self, name: str) -> Mapping[str, str]:
        """Return headers that ask the store to take the bytes under a name in place of those of a PUT.

        No address of `uploads` allows that: the probe tries it.
        """


@dataclass(frozen=True)
class Signing:
    """How a backend signs."""

    outside: Signer
    """For clients."""
    inside: Signer
    """At the address by which this service reaches the store; of the same bytes."""
    signs_uploads: bool
    """Whether `uploads`, `facts` and `copying_headers` can be called."""
    is_reachable: bool
    """Whether clients can be believed to reach the addresses of `outside`."""
