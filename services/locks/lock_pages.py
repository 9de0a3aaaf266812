"""Pages of a repository's standing locks, as callers ask for them: with a cursor and a limit."""

from typing import NamedTuple

from services.common.shared_answers import SharedAnswers
from services.database.transactions import Database
from services.locks.cursors import parse_cursor
from services.locks.lock_table import StandingLock, list_locks
from services.locks.settings import LocksSettings

_MOST_LONG = 10_000


class LockPage(NamedTuple):
    """Locks in the order of their creation, and the cursor of the next page; empty on the last one."""

    locks: tuple[StandingLock, ...]
    next_cursor: str


class _Asked(NamedTuple):
    repository_id: int
    after: int | None
    size: int
    path: str | None
    lock_id: int | None


class LockPages:
    """Reads pages of locks; who asks for the same page while another is read shares what is read next.

    Its owner closes it.
    """

    def __init__(self, database: Database, settings: LocksSettings) -> None:
        self._database = database
        self._settings = settings
        self._shared = SharedAnswers(self._read)
        # The repositories that have had more than a page of long paths.
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
        asked = _Asked(repository_id, parse_cursor(cursor), self._settings.page_size(limit), path, lock_id)
        return await self._shared.ask(asked)

    async def close(self) -> None:
        """Give up what is under way."""
        await self._shared.close()

    async def _read(self, asked: _Asked) -> LockPage:
        locks, more = await list_locks(
            self._database,
            repository_id=asked.repository_id,
            after=asked.after,
            limit=asked.size,
            most_bytes=self._settings.lock_page_bytes,
            measured=asked.repository_id in self._long,
            path=asked.path,
            lock_id=asked.lock_id,
        )
        if more and len(locks) < asked.size:
            if len(self._long) >= _MOST_LONG:
                self._long.clear()
            self._long.add(asked.repository_id)
        return LockPage(locks, str(locks[-1].id) if more else "")
