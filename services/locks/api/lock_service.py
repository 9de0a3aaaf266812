"""The gRPC servicer of LockService."""

import uuid
from collections.abc import AsyncIterator
from functools import partial

from towpath.locks.v1 import lock_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2_grpc import LockServiceServicer

from services.common.errors import AlreadyExists, Reason
from services.database.transactions import Database
from services.locks.api.lock_events import update_message
from services.locks.api.messages import lock_filter_of, lock_message, path_failure_message
from services.locks.events.feed import LockFeed
from services.locks.ids import parse_id
from services.locks.locking import batch
from services.locks.locking.pages import LockPages
from services.locks.locking.paths import check_path
from services.locks.locking.release import remove_lock
from services.locks.locking.table import LockLimits, create_lock
from services.locks.metrics import LOCK_CONFLICTS, LOCKS_CREATED, count_released
from services.locks.settings import LocksSettings
from services.locks.validation import check_idempotency_key

# Callers take a silence of twice this for the loss of the service.
_IDLE_SECONDS = 10.0


class LockServicer(LockServiceServicer):
    """Answers the calls of LockService."""

    def __init__(self, database: Database, settings: LocksSettings, pages: LockPages, feed: LockFeed) -> None:
        self._database = database
        self._feed = feed
        self._max_path_bytes = settings.lock_path_bytes
        self._limits = LockLimits(settings.locks_per_repository, settings.locks_per_user)
        self._pages = pages

    async def CreateLock(self, request: pb.CreateLockRequest, _context: object) -> pb.CreateLockResponse:
        """Lock a path. Raises `AlreadyExists` (PATH_LOCKED), with the standing lock as detail, if it is locked."""
        check_path(request.path, max_bytes=self._max_path_bytes)
        lock, made = await create_lock(
            self._database,
            repository_id=request.repository_id,
            user_id=request.user_id,
            path=request.path,
            idempotency_key=_key(request.idempotency_key),
            limits=self._limits,
        )
        message = lock_message(lock)
        (LOCKS_CREATED if made else LOCK_CONFLICTS).inc()
        if not made:
            raise AlreadyExists(Reason.PATH_LOCKED, f"the path is locked by {lock.owner_name}", detail=message)
        return pb.CreateLockResponse(lock=message)

    async def ListLocks(self, request: pb.ListLocksRequest, _context: object) -> pb.ListLocksResponse:
        """Return a page of a repository's locks, unless the caller knows its generation."""
        if request.HasField("known_generation"):
            generation = await self._pages.generation(request.repository_id)
            if generation == request.known_generation:
                return pb.ListLocksResponse(generation=generation, unchanged=True)
        page = await self._pages.read(
            request.repository_id, lock_filter_of(request), cursor=request.cursor, limit=request.limit
        )
        return pb.ListLocksResponse(
            locks=map(lock_message, page.locks), next_cursor=page.next_cursor, generation=page.generation
        )

    async def VerifyLocks(self, request: pb.VerifyLocksRequest, _context: object) -> pb.VerifyLocksResponse:
        """Return a page of locks, split by owner."""
        page = await self._pages.read(request.repository_id, cursor=request.cursor, limit=request.limit)
        response = pb.VerifyLocksResponse(next_cursor=page.next_cursor, generation=page.generation)
        for lock in page.locks:
            side = response.ours if lock.owner_id == request.user_id else response.theirs
            side.append(lock_message(lock))
        return response

    async def DeleteLock(self, request: pb.DeleteLockRequest, _context: object) -> pb.DeleteLockResponse:
        """Remove a lock and return it."""
        lock = await self._database.run(
            partial(
                remove_lock,
                repository_id=request.repository_id,
                lock_id=parse_id(request.id),
                user_id=request.user_id,
                force=request.force,
                idempotency_key=_key(request.idempotency_key),
            )
        )
        count_released(forced=lock.owner_id != request.user_id)
        return pb.DeleteLockResponse(lock=lock_message(lock))

    async def CreateLocks(self, request: pb.CreateLocksRequest, _context: object) -> pb.CreateLocksResponse:
        """Lock many paths."""
        outcome = await batch.create_locks(
            self._database,
            repository_id=request.repository_id,
            user_id=request.user_id,
            paths=request.paths,
            max_path_bytes=self._max_path_bytes,
            limits=self._limits,
            all_or_nothing=request.all_or_nothing,
        )
        LOCKS_CREATED.inc(len(outcome.changed))
        LOCK_CONFLICTS.inc(sum(failure.lock is not None for failure in outcome.failures))
        return pb.CreateLocksResponse(
            locks=map(lock_message, outcome.locks), failures=map(path_failure_message, outcome.failures)
        )

    async def DeleteLocks(self, request: pb.DeleteLocksRequest, _context: object) -> pb.DeleteLocksResponse:
        """Remove the locks of many paths and return them."""
        outcome = await batch.remove_locks(
            self._database,
            repository_id=request.repository_id,
            user_id=request.user_id,
            paths=request.paths,
            force=request.force,
            idempotency_key=_key(request.idempotency_key),
            all_or_nothing=request.all_or_nothing,
        )
        for lock in outcome.changed:
            count_released(forced=lock.owner_id != request.user_id)
        return pb.DeleteLocksResponse(
            locks=map(lock_message, outcome.locks), failures=map(path_failure_message, outcome.failures)
        )

    async def WatchLocks(self, request: pb.WatchLocksRequest, _context: object) -> AsyncIterator[pb.WatchLocksResponse]:
        """Return the changes of a repository's locks as they are made."""
        after = request.after if request.HasField("after") else None
        async for update in self._feed.watch(request.repository_id, after, idle_seconds=_IDLE_SECONDS):
            yield update_message(update)


def _key(given: str) -> str:
    """Return the caller's idempotency key, or a new key, because the transaction itself may be retried too."""
    check_idempotency_key(given)
    return given or uuid.uuid4().hex
