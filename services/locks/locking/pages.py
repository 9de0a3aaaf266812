"""Keyset pages of a repository's standing locks, requested with a cursor and a limit."""

from typing import NamedTuple

from services.database.transactions import Database
from services.locks.ids import parse_cursor
from services.locks.locking.table import LockWithOwner, list_locks
from services.locks.settings import LocksSettings

_MAX_LONG_PATHS = 10_000


class LockPage(NamedTuple):
    """Locks in the order of their creation, and the cursor of the next page; it is empty on the last page."""

    locks: tuple[LockWithOwner, ...]
    next_cursor: str


class LockPages:
    """Reads pages of locks."""

    def __init__(self, database: Database, settings: LocksSettings) -> None:
        self._database = database
        self._settings = settings
        # Repositories with a page that `lock_page_bytes` has cut short; their pages are measured in Postgres.
        self._long: set[int] = set()

    async def read(
        self,
        repository_id: int,
        *,
        cursor: str,
        limit: int,
        path: str | None = None,
        lock_id: int | None = None,
    ) -> LockPage:
        """Return a page, as of now; `path` and `lock_id` select one lock. Raises `InvalidArgument` (INVALID_CURSOR)."""
        size = self._settings.page_size(limit)
        locks, more = await list_locks(
            self._database,
            repository_id=repository_id,
            after=parse_cursor(cursor),
            limit=size,
            max_bytes=self._settings.lock_page_bytes,
            measured=repository_id in self._long,
            path=path,
            lock_id=lock_id,
        )
        if more and len(locks) < size:
            if len(self._long) >= _MAX_LONG_PATHS:
                self._long.clear()
            self._long.add(repository_id)
        return LockPage(locks, str(locks[-1].id) if more else "")
