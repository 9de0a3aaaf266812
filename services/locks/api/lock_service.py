"""The gRPC servicer of LockService."""

import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, aclosing, nullcontext
from functools import partial

from towpath.locks.v1 import lock_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2_grpc import LockServiceServicer

from services.common.rpc.interceptors import Context
from services.database.transactions import Database
from services.locks.api.conflicts import path_locked, stolen
from services.locks.api.lock_events import update_message
from services.locks.api.messages import (
    history_filter_of,
    lock_filter_of,
    lock_message,
    path_failure_message,
    released_lock_message,
)
from services.locks.audit.recorder import FACADE, acting
from services.locks.events.feed import LockFeed
from services.locks.ids import parse_cursor, parse_id
from services.locks.locking import batch
from services.locks.locking.history import list_released
from services.locks.locking.pages import LockFilter, LockPages
from services.locks.locking.paths import check_path
from services.locks.locking.release import remove_lock
from services.locks.locking.spaces import KnownRules
from services.locks.locking.steal import steal_lock
from services.locks.locking.table import LockLimits, create_lock
from services.locks.metrics import LOCK_CONFLICTS, LOCKS_CREATED, count_released
from services.locks.settings import LocksSettings
from services.locks.validation import check_idempotency_key, check_note, check_reason

# Callers take a silence of twice this for the loss of the service.
_IDLE_SECONDS = 10.0
# A facade has one watch for each repository that its clients watch. The facades of 0.1.0 have one for each client.
_WATCHES_OF_A_HOST = 2_048


class LockServicer(LockServiceServicer):
    """Answers the calls of LockService."""

    def __init__(self, database: Database, settings: LocksSettings, pages: LockPages, feed: LockFeed) -> None:
        self._database = database
        self._feed = feed
        self._settings = settings
        self._max_path_bytes = settings.lock_path_bytes
        self._limits = LockLimits(settings.locks_per_repository, settings.locks_per_user)
        self._pages = pages
        self._rules = KnownRules()

    async def CreateLock(self, request: pb.CreateLockRequest, _context: object) -> pb.CreateLockResponse:
        """Lock a path. Raises `AlreadyExists` (PATH_LOCKED), with the standing lock as detail, if it is locked."""
        check_path(request.path, max_bytes=self._max_path_bytes)
        check_note("note", request.note)
        lock, made = await create_lock(
            self._database,
            repository_id=request.repository_id,
            user_id=request.user_id,
            path=request.path,
            idempotency_key=_key(request.idempotency_key),
            limits=self._limits,
            known=self._rules,
            note=request.note,
            ref=request.ref,
        )
        (LOCKS_CREATED if made else LOCK_CONFLICTS).inc()
        if not made:
            raise path_locked(lock)
        return pb.CreateLockResponse(lock=lock_message(lock))

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
        which = LockFilter(ref=request.ref)
        page = await self._pages.read(request.repository_id, which, cursor=request.cursor, limit=request.limit)
        response = pb.VerifyLocksResponse(next_cursor=page.next_cursor, generation=page.generation)
        for lock in page.locks:
            side = response.ours if lock.owner_id == request.user_id else response.theirs
            side.append(lock_message(lock))
        return response

    async def DeleteLock(self, request: pb.DeleteLockRequest, _context: object) -> pb.DeleteLockResponse:
        """Remove a lock and return it."""
        check_note("reason", request.reason)
        work = partial(
            remove_lock,
            repository_id=request.repository_id,
            lock_id=parse_id(request.id),
            user_id=request.user_id,
            token_id=request.token_id,
            force=request.force,
            idempotency_key=_key(request.idempotency_key),
            reason=request.reason,
        )
        with _audited(forced=request.force):
            lock = await self._database.run(work)
        count_released(forced=lock.owner_id != request.user_id)
        return pb.DeleteLockResponse(lock=lock_message(lock))

    async def CreateLocks(self, request: pb.CreateLocksRequest, _context: object) -> pb.CreateLocksResponse:
        """Lock many paths."""
        check_note("note", request.note)
        outcome = await batch.create_locks(
            self._database,
            repository_id=request.repository_id,
            user_id=request.user_id,
            paths=request.paths,
            max_path_bytes=self._max_path_bytes,
            limits=self._limits,
            all_or_nothing=request.all_or_nothing,
            note=request.note,
            ref=request.ref,
        )
        LOCKS_CREATED.inc(len(outcome.changed))
        LOCK_CONFLICTS.inc(sum(failure.lock is not None for failure in outcome.failures))
        return pb.CreateLocksResponse(
            locks=map(lock_message, outcome.locks), failures=map(path_failure_message, outcome.failures)
        )

    async def DeleteLocks(self, request: pb.DeleteLocksRequest, _context: object) -> pb.DeleteLocksResponse:
        """Remove the locks of many paths and return them."""
        check_note("reason", request.reason)
        with _audited(forced=request.force):
            outcome = await batch.remove_locks(
                self._database,
                repository_id=request.repository_id,
                user_id=request.user_id,
                token_id=request.token_id,
                paths=request.paths,
                force=request.force,
                idempotency_key=_key(request.idempotency_key),
                all_or_nothing=request.all_or_nothing,
                reason=request.reason,
                ref=request.ref,
            )
        for lock in outcome.changed:
            count_released(forced=lock.owner_id != request.user_id)
        return pb.DeleteLocksResponse(
            locks=map(lock_message, outcome.locks), failures=map(path_failure_message, outcome.failures)
        )

    async def WatchLocks(self, request: pb.WatchLocksRequest, context: Context) -> AsyncIterator[pb.WatchLocksResponse]:
        """Return the changes of a repository's locks as they are made."""
        after = request.after if request.HasField("after") else None
        # Without the port: a caller opens a connection every ten seconds.
        host = context.peer().rpartition(":")[0]
        watch = self._feed.watch(
            request.repository_id, after, idle_seconds=_IDLE_SECONDS, caller=f"host {host}", share=_WATCHES_OF_A_HOST
        )
        async with aclosing(watch) as updates:
            async for update in updates:
                yield update_message(update)

    async def StealLock(self, request: pb.StealLockRequest, _context: object) -> pb.StealLockResponse:
        """Replace another user's lock. Raises `AlreadyExists` (PATH_LOCKED) if another lock stands in its place."""
        check_reason(request.reason)
        check_note("note", request.note)
        with _audited(forced=True):
            theft = await self._database.run(
                partial(
                    steal_lock,
                    repository_id=request.repository_id,
                    lock_id=parse_id(request.id),
                    user_id=request.user_id,
                    token_id=request.token_id,
                    reason=request.reason,
                    note=request.note,
                    idempotency_key=_key(request.idempotency_key),
                    limits=self._limits,
                    ref=request.ref,
                )
            )
        previous = stolen(theft)
        return pb.StealLockResponse(
            lock=lock_message(theft.lock), previous=released_lock_message(pb.ReleasedLock, previous)
        )

    async def ListReleasedLocks(
        self, request: pb.ListReleasedLocksRequest, _context: object
    ) -> pb.ListReleasedLocksResponse:
        """Return a page of the locks that a repository has had."""
        locks, more = await list_released(
            self._database,
            repository_id=request.repository_id,
            before=parse_cursor(request.cursor),
            limit=self._settings.page_size(request.limit),
            which=history_filter_of(request),
        )
        return pb.ListReleasedLocksResponse(
            locks=(released_lock_message(pb.ReleasedLock, lock) for lock in locks),
            next_cursor=str(locks[-1].id) if more else "",
        )


def _key(given: str) -> str:
    """Return the caller's idempotency key, or a new key, because the transaction itself may be retried too."""
    check_idempotency_key(given)
    return given or uuid.uuid4().hex


def _audited(*, forced: bool) -> AbstractContextManager[None]:
    """Return the block for a call that may release a lock of another user; its event names the user who did."""
    return acting("", FACADE) if forced else nullcontext()
