"""Parts of the events of locks, and the feed in which they wait for the clients that watch a repository."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import Reason, ResourceExhausted, ServiceError
from services.common.lock_positions import Position, parse_position
from services.facade.web.error_reasons import invalid_reply

LOOK_SECONDS = 0.3
"""The time after which a watcher that has heard nothing looks whether it may still watch."""

# What a watcher that reads slowly may leave unread. The last part is kept in any case.
_MAX_UNREAD_BYTES = 4 * 1024**2


@dataclass(eq=False)
class Part:
    """Some events, one after the other, and the positions before and after them; after a reset, events are missing."""

    response: pb.WatchLocksResponse
    after: Position
    position: Position
    encoded: bytes | None = None
    """The bytes that clients are sent of it, made once for all of them."""

    @classmethod
    def of(cls, response: pb.WatchLocksResponse, after: Position | None) -> "Part":
        """Return the part that a response carries, after the part before it. Raises `ServiceError` (INVALID_REPLY)."""
        position = _parsed(response.position)
        return cls(response, position if response.reset or after is None else after, position)

    def beyond(self, known: Position) -> "Part":
        """Return the part for a watcher that knows all events before this part, and perhaps some of this part."""
        if self.response.reset or known == self.after:
            return self
        response, at, new = pb.WatchLocksResponse(), self.after, known
        for event in self.response.events:
            position = _parsed(event.position)
            stripe = at.stripe_before(position)
            if position.numbers[stripe] > known.numbers[stripe]:
                new = new.after(stripe, position.numbers[stripe])
                added = response.events.add()
                added.CopyFrom(event)
                added.position = str(new)
            at = position
        response.position = str(new)
        return Part(response, known, new)


@dataclass(eq=False)
class Cursor:
    """The place of a watcher in a feed: the number of the next part that it takes."""

    next: int


class Feed:
    """The call to the lock service for one repository, and the parts that not all of its watchers have taken."""

    def __init__(self, repository_id: int) -> None:
        self.repository_id = repository_id
        self.position: Position | None = None
        """The position after the last part; None until the first response."""
        self.is_live = False
        """True between the first response and the end of a call."""
        self.error: ServiceError | None = None
        """The error that has ended the call for good."""
        self.task: asyncio.Task[None]
        self._cursors: set[Cursor] = set()
        self._parts: deque[Part] = deque()
        self._first = 0
        self._bytes = 0
        self._changed = asyncio.Event()

    @property
    def is_watched(self) -> bool:
        """True while there are watchers."""
        return bool(self._cursors)

    @contextmanager
    def cursor(self) -> Iterator[Cursor]:
        """Count a watcher during the block, whose cursor is behind the last part."""
        cursor = Cursor(self._first + len(self._parts))
        self._cursors.add(cursor)
        try:
            yield cursor
        finally:
            self._cursors.discard(cursor)

    def skip(self, cursor: Cursor) -> Position:
        """Move the cursor behind the last part, and return the position there."""
        cursor.next = self._first + len(self._parts)
        assert self.position is not None  # noqa: S101 - it is live
        return self.position

    def goes_on_after(self, known: Position, cursor: Cursor) -> bool:
        """Return whether a watcher that knows the events up to a position misses none that is not in the next parts."""
        left = [part for number, part in enumerate(self._parts, self._first) if number >= cursor.next]
        if any(part.response.reset for part in left):
            return True
        # A position that the call does not reach may be one of before a backup was restored.
        last = self.position
        return last is not None and last.includes(known) and known.includes(left[0].after if left else last)

    def take(self, cursor: Cursor) -> Part | None:
        """Return the next part, if there is one.

        Raises `ResourceExhausted` (RATE_LIMITED) where it was dropped, and the error that has ended the call.
        """
        if cursor.next < self._first:
            raise ResourceExhausted(Reason.RATE_LIMITED, "the watcher reads the events of locks too slowly")
        if cursor.next < self._first + len(self._parts):
            cursor.next += 1
            return self._parts[cursor.next - 1 - self._first]
        if self.error is not None:
            raise self.error
        return None

    async def next(self, cursor: Cursor) -> Part | None:
        """Return the next part once there is one; None after 0.3 seconds. Raises the errors of `take`."""
        if (part := self.take(cursor)) is None:
            await self.wait(LOOK_SECONDS)
            part = self.take(cursor)
        return part

    def add(self, response: pb.WatchLocksResponse) -> None:
        """Add what the lock service has told. Raises `ServiceError` (INVALID_REPLY)."""
        part = Part.of(response, self.position)
        if part.response.reset or part.response.events:
            self._parts.append(part)
            self._bytes += response.ByteSize()
            self._drop()
        self.position, self.is_live = part.position, True
        self._wake()

    def _drop(self) -> None:
        taken = min((cursor.next for cursor in self._cursors), default=self._first + len(self._parts))
        while self._first < taken or (self._bytes > _MAX_UNREAD_BYTES and len(self._parts) > 1):
            self._bytes -= self._parts.popleft().response.ByteSize()
            self._first += 1

    def fail(self, error: ServiceError) -> None:
        """End every watch with this error."""
        self.error, self.is_live = error, False
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Wait until something has changed, for at most some seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()


def _parsed(text: str) -> Position:
    position = parse_position(text)
    if position is None:
        raise invalid_reply("WatchLocks", "expected a position")
    return position
