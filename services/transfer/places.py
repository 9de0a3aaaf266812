"""Places that objects come from and go to."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import NamedTuple, Protocol

from services.cli.pointers.named import Pointer
from services.cli.pointers.oid_spool import OidSpool
from services.transfer.errors import Kind, ObjectProblem


class Source(Protocol):
    """A place that objects come from."""

    name: str
    """Its name in messages and in the audit log: a URL without credentials, or a path."""

    async def add_all(self, spool: OidSpool) -> None:
        """Add the oid and the size of every object. Raises `CommandError` where the place cannot tell."""

    async def announce(self, pointers: Sequence[Pointer]) -> None:
        """Prepare reading of at most 100 objects. Raises `CommandError`."""

    def read(self, pointer: Pointer) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of an object, exactly as many as it has.

        Raises `ObjectProblem` and `Interrupted`, also amid the bytes.
        """


class Lacking(NamedTuple):
    """Of some objects, those that a place does not have, and the problems of those that it would not take."""

    pointers: Sequence[Pointer]
    problems: Mapping[str, ObjectProblem]


class Sink(Protocol):
    """A place that objects go to. It has an object when, and only when, `write` or `write_small` has returned."""

    name: str
    """Its name, as of a source."""
    verifies: bool
    """True if it compares the bytes with the oid itself, and refuses others."""
    max_group: int
    """The most small objects that `write_small` takes; 1 where there is only `write`."""

    async def lacking(self, pointers: Sequence[Pointer]) -> Lacking:
        """Tell which of at most 100 objects it does not have. Raises `CommandError`."""

    async def write(self, pointer: Pointer, chunks: AsyncGenerator[bytes, None]) -> None:
        """Write an object; close the generator of its bytes. Raises what it raises, `ObjectProblem`, `Interrupted`."""

    async def write_small(self, objects: Sequence[tuple[Pointer, bytes]]) -> Sequence[ObjectProblem | None]:
        """Write some small objects; return what is wrong with each. Raises `Interrupted`."""


async def checked(pointer: Pointer, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of an object, the last of them only if all have its hash. Raises `ObjectProblem` otherwise."""
    digest = hashlib.sha256()
    held = b""
    async for chunk in chunks:
        digest.update(chunk)
        if held:
            yield held
        held = chunk
    if digest.hexdigest() != pointer.oid:
        raise ObjectProblem(Kind.WRONG, f"the bytes have the hash {digest.hexdigest()}")
    if held:
        yield held


async def exactly(pointer: Pointer, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of an object. Raises `ObjectProblem` where they are more or fewer than its size."""
    left = pointer.size
    async with aclosing(chunks):
        async for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                raise ObjectProblem(Kind.WRONG, f"there are more than {pointer.size} bytes")
            yield chunk
    if left:
        raise ObjectProblem(Kind.WRONG, f"there are {pointer.size - left} bytes instead of {pointer.size}")
