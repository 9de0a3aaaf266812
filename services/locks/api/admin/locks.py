"""AdminService: standing and released locks."""

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from functools import partial

from towpath.access.v1 import admin_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason
from services.locks.api.admin.base import Context, Handlers, administrator_only
from services.locks.api.conflicts import stolen
from services.locks.api.lock_events import update_message
from services.locks.api.messages import (
    history_filter_of,
    lock_filter_of,
    lock_message,
    path_failure_message,
    released_lock_message,
)
from services.locks.api.token_callers import token_caller
from services.locks.ids import parse_cursor, parse_id
from services.locks.locking import batch
from services.locks.locking.history import list_released
from services.locks.locking.release import remove_lock
from services.locks.locking.steal import steal_lock
from services.locks.locking.table import LockLimits
from services.locks.metrics import LOCKS_CREATED, count_released
from services.locks.models import User
from services.locks.validation import check_note, check_reason

# A watch ends within this time, and that of a look at its token, after its administrator has lost the access.
_IDLE_SECONDS = 1.0
# The clocks of servers differ.
_CLOCK_SKEW = timedelta(minutes=5)
# Each asks the database once a second.
_WATCHES_OF_A_USER = 64


class LockHandlers(Handlers):
    """Lists, adds, removes and steals standing locks, and lists released locks."""

    @administrator_only
    async def ListRepositoryLocks(
        self, request: pb.ListRepositoryLocksRequest, _administrator: User
    ) -> pb.ListRepositoryLocksResponse:
        """Return a page of a repository's standing locks."""
        repository = await self.find_repository(request.repository)
        page = await self.lock_pages.read(
            repository.id, lock_filter_of(request), cursor=request.cursor, limit=request.limit
        )
        return pb.ListRepositoryLocksResponse(locks=map(lock_message, page.locks), next_cursor=page.next_cursor)

    @administrator_only
    async def RemoveLock(self, request: pb.RemoveLockRequest, administrator: User) -> pb.RemoveLockResponse:
        """Remove anybody's lock."""
        check_note("reason", request.reason)
        repository = await self.find_repository(request.repository)
        lock = await self.database.run(
            partial(
                remove_lock,
                repository_id=repository.id,
                lock_id=parse_id(request.id),
                user_id=administrator.id,
                force=True,
                idempotency_key=uuid.uuid4().hex,
                reason=request.reason,
                administrator=True,
            )
        )
        count_released(forced=lock.owner_id != administrator.id)
        return pb.RemoveLockResponse(lock=lock_message(lock))

    @administrator_only
    async def LockPaths(self, request: pb.LockPathsRequest, administrator: User) -> pb.LockPathsResponse:
        """Lock many paths for a user."""
        check_note("note", request.note)
        repository = await self.find_writable(request.repository)
        owner = await self._owner(request.user_name, administrator)
        outcome = await batch.create_locks(
            self.database,
            repository_id=repository.id,
            user_id=owner.id,
            paths=request.paths,
            max_path_bytes=self.settings.lock_path_bytes,
            limits=self._limits,
            all_or_nothing=request.all_or_nothing,
            note=request.note,
            ref=request.ref,
            locked_at=_times_of(request),
        )
        LOCKS_CREATED.inc(len(outcome.changed))
        return pb.LockPathsResponse(
            locks=map(lock_message, outcome.locks), failures=map(path_failure_message, outcome.failures)
        )

    @administrator_only
    async def UnlockPaths(self, request: pb.UnlockPathsRequest, administrator: User) -> pb.UnlockPathsResponse:
        """Remove anybody's locks of many paths, or only the administrator's own."""
        check_note("reason", request.reason)
        repository = await self.find_repository(request.repository)
        outcome = await batch.remove_locks(
            self.database,
            repository_id=repository.id,
            user_id=administrator.id,
            paths=request.paths,
            force=False,
            idempotency_key=uuid.uuid4().hex,
            all_or_nothing=request.all_or_nothing,
            reason=request.reason,
            ref=request.ref,
            administrator=not request.mine,
        )
        for lock in outcome.changed:
            count_released(forced=lock.owner_id != administrator.id)
        return pb.UnlockPathsResponse(
            locks=map(lock_message, outcome.locks), failures=map(path_failure_message, outcome.failures)
        )

    async def WatchRepositoryLocks(
        self, request: pb.WatchRepositoryLocksRequest, context: Context
    ) -> AsyncIterator[pb.WatchRepositoryLocksResponse]:
        """Return the changes of a repository's locks as they are made, to an administrator."""
        caller = f"user {token_caller().id}"
        repository = await self.find_repository(request.repository)
        after = request.after if request.HasField("after") else None
        watch = self.feed.watch(
            repository.id, after, idle_seconds=_IDLE_SECONDS, caller=caller, share=_WATCHES_OF_A_USER
        )
        async with aclosing(watch) as updates:
            async for update in updates:
                await self.check_still_administrator(context)
                yield pb.WatchRepositoryLocksResponse(changes=update_message(update))

    @administrator_only
    async def StealLock(self, request: pb.StealLockRequest, administrator: User) -> pb.StealLockResponse:
        """Replace anybody's lock by a lock of a user."""
        check_reason(request.reason)
        check_note("note", request.note)
        repository = await self.find_writable(request.repository)
        owner = await self._owner(request.user_name, administrator)
        theft = await self.database.run(
            partial(
                steal_lock,
                repository_id=repository.id,
                lock_id=parse_id(request.id),
                user_id=owner.id,
                reason=request.reason,
                note=request.note,
                idempotency_key=uuid.uuid4().hex,
                limits=self._limits,
                administrator=(administrator.id, administrator.name),
            )
        )
        previous = stolen(theft)
        return pb.StealLockResponse(
            lock=lock_message(theft.lock), previous=released_lock_message(pb.ReleasedLock, previous)
        )

    @administrator_only
    async def ListReleasedLocks(
        self, request: pb.ListReleasedLocksRequest, _administrator: User
    ) -> pb.ListReleasedLocksResponse:
        """Return a page of a repository's released locks."""
        repository = await self.find_repository(request.repository)
        locks, more = await list_released(
            self.database,
            repository_id=repository.id,
            before=parse_cursor(request.cursor),
            limit=self.settings.page_size(request.limit),
            which=history_filter_of(request),
        )
        return pb.ListReleasedLocksResponse(
            locks=(released_lock_message(pb.ReleasedLock, lock) for lock in locks),
            next_cursor=str(locks[-1].id) if more else "",
        )

    @property
    def _limits(self) -> LockLimits:
        return LockLimits(self.settings.locks_per_repository, self.settings.locks_per_user)

    async def _owner(self, name: str, administrator: User) -> User:
        """Return the user that a request names as owner; the calling administrator if the name is empty."""
        if not name:
            return administrator
        return await self.database.run(partial(self.find_user, field="user_name", name=name))


def _times_of(request: pb.LockPathsRequest) -> Mapping[str, datetime]:
    """Return when each path was locked, for those that move. Raises `InvalidArgument` (INVALID_FIELD)."""
    if not request.locked_at:
        return {}
    if len(request.locked_at) != len(request.paths):
        expected, got = len(request.paths), len(request.locked_at)
        raise InvalidArgument(Reason.INVALID_FIELD, f"locked_at: expected one for each of {expected} paths, got {got}")
    try:
        moments = [moment.ToDatetime(UTC) for moment in request.locked_at]
    except ValueError as error:
        raise InvalidArgument(Reason.INVALID_FIELD, "locked_at: expected times from the years 1 to 9999") from error
    if max(moments) > datetime.now(UTC) + _CLOCK_SKEW:
        raise InvalidArgument(Reason.INVALID_FIELD, "locked_at: expected times that are not in the future")
    return dict(zip(request.paths, moments, strict=True))
