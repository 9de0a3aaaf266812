"""Keyset pages of a repository's standing locks, requested with a cursor and a limit."""

import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple

from services.database.statement import Condition, Statement, conjunction
from services.database.transactions import Database
from services.locks.ids import invalid_cursor, parse_cursor
from services.locks.locking.spaces import KnownRules, space_of
from services.locks.locking.table import STANDING, LockWithOwner
from services.locks.settings import LocksSettings

_MAX_LONG_PATHS = 10_000
_FIRST_SURROGATE, _AFTER_SURROGATES = 0xD800, 0xE000

# The characters of a path by which the index of folders sorts.
_SORTED_CHARACTERS = 255
_HEAD = f'"left"(locks.path, {_SORTED_CHARACTERS})'

# The sum of all stripes, read in the same snapshot as the page. It is at least 1, because 0 is no generation.
_GENERATION = "SELECT 1 + coalesce(sum(changes), 0)::bigint FROM locks.locks_per_repository WHERE repository_id = $1"
# Hot path: literal SQL, as in `table`. Without a lock, the row of the generation has NULL for all columns of a lock.
_LIST = f"""
    SELECT ({_GENERATION}), {{changed}}, page.* FROM (SELECT) AS one LEFT JOIN (
        SELECT {STANDING} FROM locks.locks JOIN locks.users ON users.id = locks.owner_id
        WHERE locks.repository_id = $1{{conditions}}
        ORDER BY {{order}} LIMIT $2
    ) AS page ON true
    ORDER BY {{outer_order}}
"""  # noqa: S608 - our own names
_BYTES = "(octet_length(locks.path) + octet_length(locks.note) + octet_length(locks.space))"
# The present rules for spaces, if they are not those that the caller knows.
_CHANGED = "(SELECT NULLIF(lock_spaces, {}) FROM locks.repositories WHERE id = $1)"
# Like `_LIST`, but ends with the lock whose text exceeds the bound in bytes. Measuring is cheaper than reading long
# texts, and more expensive than reading short texts.
_LIST_MEASURED = f"""
    SELECT ({_GENERATION}), {{changed}},
        page.id, page.path, page.locked_at, page.owner_id, page.name, page.note, page.space
    FROM (SELECT) AS one LEFT JOIN (
        SELECT {STANDING}, sum({_BYTES}) OVER page AS bytes, row_number() OVER page AS number
        FROM locks.locks JOIN locks.users ON users.id = locks.owner_id
        WHERE locks.repository_id = $1{{conditions}}
        WINDOW page AS (ORDER BY {{order}} ROWS UNBOUNDED PRECEDING)
        ORDER BY {{order}} LIMIT $2
    ) AS page ON bytes - {_BYTES.replace("locks.", "page.")} <= {{max_bytes}}
    ORDER BY number
"""  # noqa: S608 - our own names


@dataclass(frozen=True, slots=True)
class LockFilter:
    """Selects standing locks by each field that is not None; `path_prefix` also sorts them by path.

    A `ref` that is not empty selects those in its space, if the repository has rules for spaces.
    """

    path: str | None = None
    lock_id: int | None = None
    path_prefix: str | None = None
    owner_name: str | None = None
    locked_before: datetime | None = None
    ref: str = ""

    @property
    def matches_nothing(self) -> bool:
        """True if no lock can match, because no name or path has a NUL, which Postgres would refuse."""
        return "\0" in (self.path or "") + (self.path_prefix or "") + (self.owner_name or "")


ALL = LockFilter()


class Position(NamedTuple):
    """The id of the last lock of a page, and the sorted characters of its path."""

    id: int
    head: str = ""


class LockPage(NamedTuple):
    """Locks in their order, and the cursor of the next page; it is empty on the last page.

    `generation` is a number of the repository that grows with each change of its locks, and that it had when the page
    was read.
    """

    locks: tuple[LockWithOwner, ...]
    next_cursor: str
    generation: int


class LockPages:
    """Reads pages of locks."""

    def __init__(self, database: Database, settings: LocksSettings) -> None:
        self._database = database
        self._settings = settings
        # Repositories with a page that `lock_page_bytes` has cut short; their pages are measured in Postgres.
        self._long: set[int] = set()
        self._rules = KnownRules()

    async def read(self, repository_id: int, which: LockFilter = ALL, *, cursor: str, limit: int) -> LockPage:
        """Return a page, as of now: the oldest locks first, or with `path_prefix` by path.

        The paths, notes and spaces on a page have at most `lock_page_bytes` in total, unless the page has one lock
        only. Raises `InvalidArgument` (INVALID_CURSOR).
        """
        size, max_bytes = self._settings.page_size(limit), self._settings.lock_page_bytes
        position = _position(cursor, which)
        if which.matches_nothing:
            return LockPage((), "", await self.generation(repository_id))
        changed: Sequence[str] | None = ()
        while changed is not None:
            statement = list_statement(
                repository_id,
                which,
                after=position,
                # One row beyond the page shows whether more follow.
                limit=size + 1,
                max_bytes=max_bytes if repository_id in self._long else None,
                rules=self._rules.get(repository_id),
            )
            [generation, changed, *first], *others = await self._database.fetch(statement)
            if changed is not None:
                self._rules.put(repository_id, changed)
        rows = [first, *(lock for _, _, *lock in others)] if first[0] is not None else []
        count = min(size, max(1, _how_many_fit(rows, max_bytes)), len(rows))
        locks, more = tuple(map(LockWithOwner._make, rows[:count])), len(rows) > count
        if more and count < size:
            if len(self._long) >= _MAX_LONG_PATHS:
                self._long.clear()
            self._long.add(repository_id)
        return LockPage(locks, _cursor_after(locks[-1], which) if more else "", generation)

    async def generation(self, repository_id: int) -> int:
        """Return the present generation of a repository's locks, which costs less than a page."""
        [[number]] = await self._database.fetch(Statement(_GENERATION, (repository_id,)))
        return int(number)


def list_statement(
    repository_id: int,
    which: LockFilter = ALL,
    *,
    after: Position | None,
    limit: int,
    max_bytes: int | None = None,
    rules: Sequence[str] = (),
) -> Statement:
    """Return the statement that finds the generation, and at most `limit` locks after a position; see `LockPages.read`.

    If `which` has a ref, and `rules` are not the repository's rules for spaces, each row has the present rules; else it
    has NULL in their place. With `max_bytes`, the statement ends with the lock whose texts take the total beyond that
    many bytes.
    """
    values, changed = list[object]([repository_id, limit]), "NULL"
    if which.ref:
        values.append(rules)
        changed = _CHANGED.format(f"${len(values)}")
    conditions = conjunction(_conditions(which, after, rules), values)
    # All locks of one path have the same head; this order is that of its index.
    order = "locks.id" if which.path_prefix is None and which.path is None else f"{_HEAD}, locks.id"
    parts = {"conditions": conditions, "order": order, "changed": changed}
    if max_bytes is None:
        return Statement(_LIST.format(**parts, outer_order=order.replace("locks.", "page.")), tuple(values))
    return Statement(_LIST_MEASURED.format(**parts, max_bytes=f"${len(values) + 1}"), (*values, max_bytes))


def _conditions(which: LockFilter, after: Position | None, rules: Sequence[str]) -> Iterator[Condition]:
    """Yield conditions on a lock."""
    if after is not None and which.path_prefix is None:
        yield "locks.id > {}", [after.id]
    elif after is not None:
        yield f"({_HEAD}, locks.id) > ({{}}, {{}})", [after.head, after.id]
    if which.path is not None:
        # By path, and not by its hash, because the path may be locked in several spaces.
        yield f"{_HEAD} = {{}}", [which.path[:_SORTED_CHARACTERS]]
        yield "locks.path = {}", [which.path]
    if which.ref and rules:
        yield "locks.space = {}", [space_of(rules, which.ref)]
    if which.lock_id is not None:
        yield "locks.id = {}", [which.lock_id]
    if which.path_prefix:
        # The bounds let Postgres use the index; the function compares what lies beyond its characters.
        head = which.path_prefix[:_SORTED_CHARACTERS]
        yield f"{_HEAD} >= {{}}", [head]
        if end := _end_of(head):
            yield f"{_HEAD} < {{}}", [end]
        yield "starts_with(locks.path, {})", [which.path_prefix]
    if which.owner_name is not None:
        yield "locks.owner_id = (SELECT id FROM locks.users WHERE name = {})", [which.owner_name]
    if which.locked_before is not None:
        yield "locks.locked_at < {}", [which.locked_before]


def _end_of(prefix: str) -> str:
    """Return the first text after all texts that begin with `prefix`, in the order of UTF-8; "" if there is none."""
    for length in range(len(prefix), 0, -1):
        last = ord(prefix[length - 1])
        if last < sys.maxunicode:
            # Surrogates are no characters of UTF-8.
            following = _AFTER_SURROGATES if last + 1 == _FIRST_SURROGATE else last + 1
            return prefix[: length - 1] + chr(following)
    return ""


def _position(cursor: str, which: LockFilter) -> Position | None:
    """Return the position of a cursor; None for the first page. Raises `InvalidArgument` (INVALID_CURSOR)."""
    if which.path_prefix is None or not cursor:
        last = parse_cursor(cursor)
        return None if last is None else Position(last)
    number, _, head = cursor.partition(".")
    try:
        text = urlsafe_b64decode(head).decode()
    except ValueError:
        raise invalid_cursor() from None
    last = parse_cursor(number)
    if last is None or not text or "\0" in text:
        raise invalid_cursor()
    return Position(last, text)


def _cursor_after(lock: LockWithOwner, which: LockFilter) -> str:
    if which.path_prefix is None:
        return str(lock.id)
    return f"{lock.id}.{urlsafe_b64encode(lock.path[:_SORTED_CHARACTERS].encode()).decode()}"


def _how_many_fit(found: Sequence[Sequence[Any]], max_bytes: int) -> int:
    """Return how many of the first locks have paths, notes and spaces of at most `max_bytes` in total."""
    # Skips encoding: a character has at most four bytes in UTF-8.
    if 4 * sum(len(path) + len(note) + len(space) for _, path, _, _, _, note, space in found) <= max_bytes:
        return len(found)
    totals = accumulate(len(f"{path}{note}{space}".encode()) for _, path, _, _, _, note, space in found)
    return sum(total <= max_bytes for total in totals)
