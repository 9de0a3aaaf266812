"""Keyset pages of a repository's standing locks, requested with a cursor and a limit."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from services.database.statement import Row, Statement
from services.database.transactions import Database
from services.locks.ids import parse_cursor
from services.locks.locking.paths import path_hash
from services.locks.locking.table import STANDING, LockWithOwner
from services.locks.settings import LocksSettings

_MAX_LONG_PATHS = 10_000

# Hot path: literal SQL, as in `table`.
_LIST = f"""
    SELECT {STANDING} FROM locks.locks JOIN locks.users ON users.id = locks.owner_id
    WHERE locks.repository_id = $1{{}}
    ORDER BY locks.id LIMIT $2
"""  # noqa: S608 - our own names
# Like `_LIST`, but ends with the lock whose path exceeds the bound in bytes. Measuring is cheaper than reading long
# paths, and more expensive than reading short paths.
_LIST_MEASURED = f"""
    SELECT id, path, locked_at, owner_id, name FROM (
        SELECT {STANDING}, sum(octet_length(path)) OVER (ORDER BY locks.id ROWS UNBOUNDED PRECEDING) AS bytes
        FROM locks.locks JOIN locks.users ON users.id = locks.owner_id
        WHERE locks.repository_id = $1{{}}
        ORDER BY locks.id LIMIT $2
    ) AS page
    WHERE bytes - octet_length(path) <= {{}}
    ORDER BY id
"""  # noqa: S608 - our own names


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
        """Return a page, as of now; `path` and `lock_id` select one lock. Raises `InvalidArgument` (INVALID_CURSOR).

        The paths on a page have at most `lock_page_bytes` in total, which is at least the length of the longest path.
        """
        size, max_bytes = self._settings.page_size(limit), self._settings.lock_page_bytes
        statement = list_statement(
            repository_id=repository_id,
            after=parse_cursor(cursor),
            # One row beyond the page shows whether more follow.
            limit=size + 1,
            path=path,
            lock_id=lock_id,
            max_bytes=max_bytes if repository_id in self._long else None,
        )
        rows = await self._database.fetch(statement)
        count = min(size, _how_many_fit(rows, max_bytes))
        locks, more = tuple(map(LockWithOwner._make, rows[:count])), len(rows) > count
        if more and count < size:
            if len(self._long) >= _MAX_LONG_PATHS:
                self._long.clear()
            self._long.add(repository_id)
        return LockPage(locks, str(locks[-1].id) if more else "")


def list_statement(
    *,
    repository_id: int,
    after: int | None,
    limit: int,
    path: str | None = None,
    lock_id: int | None = None,
    max_bytes: int | None = None,
) -> Statement:
    """Return the statement that finds at most `limit` locks; see `LockPages.read`.

    With `max_bytes`, the statement ends with the lock whose path takes the total beyond that many bytes.
    """
    conditions, values = "", list[object]([repository_id, limit])
    selected = (
        ("locks.id >", after),
        ("locks.path_hash =", None if path is None else path_hash(path)),
        ("locks.id =", lock_id),
    )
    for condition, value in selected:
        if value is not None:
            values.append(value)
            conditions += f" AND {condition} ${len(values)}"
    if max_bytes is None:
        return Statement(_LIST.format(conditions), tuple(values))
    return Statement(_LIST_MEASURED.format(conditions, f"${len(values) + 1}"), (*values, max_bytes))


def _how_many_fit(found: Sequence[Row], max_bytes: int) -> int:
    """Return how many of the first locks have paths of at most `max_bytes` in total."""
    # Skips encoding: a character has at most four bytes in UTF-8.
    if 4 * sum(len(row[1]) for row in found) <= max_bytes:
        return len(found)
    totals = accumulate(len(row[1].encode()) for row in found)
    return sum(total <= max_bytes for total in totals)
