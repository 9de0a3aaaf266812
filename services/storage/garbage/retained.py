"""The list of retained objects: checked while it arrives, and kept in the index until the collection ends."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from services.common.errors import InvalidArgument, Reason
from services.common.oid import is_oid
from services.storage import validation
from services.storage.context import StorageContext
from services.storage.index import collections
from services.storage.index.collections import Collection

MAX_OIDS = 50_000_000
"""The most oids of a list."""

MAX_MESSAGE_OIDS = 10_000
"""The most oids of a message."""


@dataclass(frozen=True)
class ListEnd:
    """The end of a list: the number of its oids, and the SHA-256 of these, each followed by a newline."""

    count: int
    digest: str


class RetainedList:
    """The oids that a collection retains; complete once `receive` has returned."""

    def __init__(self, context: StorageContext, collection: Collection) -> None:
        self._context = context
        self._collection = collection
        self._hash = hashlib.sha256()
        self._last = ""
        self.count = 0

    async def receive(self, parts: AsyncIterator[Sequence[str] | ListEnd]) -> None:
        """Receive the list up to its end. Raises `InvalidArgument` unless it is whole and in order."""
        async for part in parts:
            if isinstance(part, ListEnd):
                self._check(part)
                return
            await self._add(part)
        raise InvalidArgument(Reason.INVALID_FIELD, "end: expected after the retained objects; the list is cut off")

    async def _add(self, oids: Sequence[str]) -> None:
        if not 1 <= len(oids) <= MAX_MESSAGE_OIDS:
            raise InvalidArgument(
                Reason.INVALID_FIELD, f"retained.oids: expected 1 to {MAX_MESSAGE_OIDS}, got {len(oids)}"
            )
        for oid in oids:
            # Fast path: the validator is called only to raise.
            if not is_oid(oid):
                validation.oid(oid)
        if not all(before < after for before, after in pairwise((self._last, *oids))):
            raise InvalidArgument(Reason.INVALID_FIELD, "retained.oids: expected each once, in ascending order")
        self.count += len(oids)
        if self.count > MAX_OIDS:
            raise InvalidArgument(Reason.INVALID_FIELD, f"retained.oids: expected at most {MAX_OIDS} altogether")
        self._last = oids[-1]
        self._hash.update("".join(f"{oid}\n" for oid in oids).encode())
        await self._context.database.run(partial(collections.retain, collection=self._collection, oids=oids))

    def _check(self, end: ListEnd) -> None:
        if end.count < 1:
            raise InvalidArgument(Reason.INVALID_FIELD, f"end.count: expected at least 1, got {end.count}")
        if end.count != self.count:
            raise InvalidArgument(Reason.INVALID_FIELD, f"end.count: {self.count} ids came, got {end.count}")
        if end.digest != self._hash.hexdigest():
            raise InvalidArgument(
                Reason.INVALID_FIELD, "end.digest: expected the SHA-256 of the ids, each followed by a newline"
            )
