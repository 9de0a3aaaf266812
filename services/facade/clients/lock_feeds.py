"""The events of locks for the clients that watch them: one call to the lock service for each repository.

Whoever begins at an earlier position gets what it has missed by a call of its own, which ends where the shared one goes
on. Both may have the same events, in another order of independent changes: positions tell which are known.
"""

import asyncio
import contextvars
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

import grpc
from towpath.locks.v1 import lock_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2_grpc import LockServiceStub

from services.common.errors import NotFound, PermissionDenied, ServiceError, Unauthenticated
from services.common.lifecycle import cancel_and_wait
from services.common.lock_positions import Position
from services.common.observability.logs import get_logger
from services.common.rpc.client import ServiceClient
from services.facade.clients.lock_parts import LOOK_SECONDS, Cursor, Feed, Part

PAUSE_SECONDS = 0.5
"""The pause before a retry while the lock service is away."""

# The lock service sends something every ten seconds.
_SILENT_SECONDS = 20.0
# The responses of which the lock service is asked for at a time by those who catch up; all may read 10,000 events.
_MAX_CATCHING_UP = 16
# The repository is gone, or the lock service does not know this facade.
_FINAL = (NotFound, PermissionDenied, Unauthenticated)

_log = get_logger(__name__)


class LockFeeds:
    """The feeds of the repositories that are watched. Its owner closes it."""

    def __init__(self, locks: ServiceClient) -> None:
        self._locks = locks
        self._stub = LockServiceStub(locks.channel)
        self._feeds: dict[int, Feed] = {}
        self._catching_up = asyncio.Semaphore(_MAX_CATCHING_UP)

    async def watch(self, repository_id: int, after: str | None) -> AsyncGenerator[Part | None, None]:
        """Yield the events after a position, or from now on, each once; None whenever none came for 0.3 seconds.

        The first part tells the position from which the events are told. While the lock service is away, the iterator
        waits, and goes on where it was. Raises `ResourceExhausted` (RATE_LIMITED) where the caller takes the parts so
        slowly that some were dropped, and the errors of LockService.WatchLocks after which no call can go on.
        """
        feed, known = self._feed(repository_id), Position(repository_id)
        try:
            with feed.cursor() as cursor:
                while not feed.is_live:
                    feed.take(cursor)
                    await feed.wait(LOOK_SECONDS)
                    yield None
                async with aclosing(self._first_parts(feed, cursor, after)) as parts:
                    async for part in parts:
                        known = known if part is None else part.position
                        yield part
                while True:
                    part = await feed.next(cursor)
                    if part is None:
                        yield None
                    elif part.response.reset or not known.includes(part.position):
                        part = part.beyond(known)
                        known = part.position
                        yield part
        finally:
            if not feed.is_watched:
                feed.task.cancel()
                self._forget(feed)

    async def close(self) -> None:
        """End the calls."""
        await cancel_and_wait(*(feed.task for feed in self._feeds.values()))

    def _feed(self, repository_id: int) -> Feed:
        feed = self._feeds.get(repository_id)
        if feed is None:
            feed = self._feeds[repository_id] = Feed(repository_id)
            # Not in the context of the request that happens to be the first.
            feed.task = asyncio.create_task(self._keep_reading(feed), context=contextvars.Context())
        return feed

    def _forget(self, feed: Feed) -> None:
        if self._feeds.get(feed.repository_id) is feed:
            del self._feeds[feed.repository_id]

    async def _keep_reading(self, feed: Feed) -> None:
        while True:
            after = None if feed.position is None else str(feed.position)
            try:
                async with aclosing(self._responses(feed.repository_id, after)) as responses:
                    async for response in responses:
                        if response is not None:
                            feed.add(response)
            except _FINAL as error:
                self._forget(feed)
                feed.fail(error)
                return
            except ServiceError as error:
                _log.info("the watch of locks is interrupted", reason=error.reason, message=error.message)
            feed.is_live = False
            await asyncio.sleep(PAUSE_SECONDS)

    async def _first_parts(self, feed: Feed, cursor: Cursor, after: str | None) -> AsyncGenerator[Part | None, None]:
        """Yield the position from which a watcher is told events, and those that come before the next ones of the feed.

        None is yielded as by `watch`.
        """
        now = feed.skip(cursor)
        if after is None or after == str(now):
            yield Part(pb.WatchLocksResponse(position=str(now)), now, now)
            return
        known: Position | None = None
        while True:
            try:
                async with aclosing(self._in_turn(self._responses(feed.repository_id, after))) as responses:
                    async for response in responses:
                        part = None if response is None else Part.of(response, known)
                        if part is not None:
                            known, after = part.position, part.response.position
                        yield part
                        if known is not None and feed.goes_on_after(known, cursor):
                            return
            except _FINAL:
                raise
            except ServiceError as error:
                _log.info("the watch of locks is interrupted", reason=error.reason, message=error.message)
            yield None
            await asyncio.sleep(PAUSE_SECONDS)

    async def _in_turn(
        self, responses: AsyncGenerator[pb.WatchLocksResponse | None, None]
    ) -> AsyncGenerator[pb.WatchLocksResponse | None, None]:
        """Yield the responses of one who catches up, each read in its turn, and None while another's turn lasts.

        No turn lasts while a response is passed on: a client that does not take it would keep all others waiting.
        """
        async with aclosing(responses):
            while True:
                while not await self._has_turn():
                    yield None
                try:
                    response = await anext(responses)
                except StopAsyncIteration:
                    return
                finally:
                    self._catching_up.release()
                yield response

    async def _has_turn(self) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                return await self._catching_up.acquire()
        return False

    async def _responses(
        self, repository_id: int, after: str | None
    ) -> AsyncGenerator[pb.WatchLocksResponse | None, None]:
        """Yield the responses of one call until the lock service ends it, and None whenever none came for a while.

        Raises the errors of LockService.WatchLocks.
        """
        request = pb.WatchLocksRequest(repository_id=repository_id, after=after)
        call = self._stub.WatchLocks(request, metadata=self._locks.metadata(), wait_for_ready=True)
        reading = asyncio.ensure_future(call.read())
        heard_at = time.monotonic()
        try:
            while True:
                done, _ = await asyncio.wait({reading}, timeout=LOOK_SECONDS)
                if not done:
                    if time.monotonic() - heard_at >= _SILENT_SECONDS:
                        return
                    yield None
                    continue
                response = reading.result()
                if not isinstance(response, pb.WatchLocksResponse):
                    return
                yield response
                heard_at = time.monotonic()
                reading = asyncio.ensure_future(call.read())
        except grpc.aio.AioRpcError as error:
            raise self._locks.error(error) from error
        finally:
            reading.cancel()
            call.cancel()
