"""A page of a repository's standing locks, as callers ask for it: with a cursor and a limit."""

from typing import NamedTuple

from services.database.transactions import Database
from services.locks.cursors import parse_cursor
from services.locks.lock_table import StandingLock, list_locks
from services.locks.settings import LocksSettings


class LockPage(NamedTuple):
    """Locks in the order of their creation, and the cursor of the next page; empty on the last one."""

    locks: tuple[StandingLock, ...]
    next_cursor: str


class LockPages:
    """Reads pages of locks."""

    def __init__(self, database: Database, settings: LocksSettings) -> None:
        self._database = database
        self._settings = settings

    async def read(
        self,
        repository_id: int,
        *,
        cursor: str,
        limit: int,
        path: str | None = None,
        lock_id: int | None = None,
    ) -> LockPage:
        """Return a page; `path` and `lock_id` select one lock. Raises `InvalidArgument` (INVALID_CURSOR)."""
        after = parse_cursor(cursor)
        size = self._settings.page_size(limit)
        locks, more = await list_locks(
            self._database, repository_id=repository_id, after=after, limit=size, path=path, lock_id=lock_id
        )
        return LockPage(locks, str(locks[-1].id) if more else "")
