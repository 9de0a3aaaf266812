"""Pages of lists that are ordered by name: the cursor is the name of the last entry."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from services.locks.ids import invalid_cursor
from services.locks.validation import is_name

PAGE_DEFAULT = 100
_PAGE_MAX = 1_000

_Entry = TypeVar("_Entry")


class NamePage(NamedTuple):
    """The name after which a page begins, and its number of entries; None for all."""

    after: str
    limit: int | None

    @property
    def asked(self) -> int | None:
        """The number of entries to read: one more than a page tells whether there is another."""
        return None if self.limit is None else self.limit + 1

    def cut(self, found: Sequence[_Entry], name: Callable[[_Entry], str]) -> tuple[Sequence[_Entry], str]:
        """Return the entries of the page, and the cursor of the next one, which is empty if there is none."""
        if self.limit is None or len(found) <= self.limit:
            return found, ""
        entries = found[: self.limit]
        return entries, name(entries[-1])


def name_page(
    cursor: str,
    limit: int,
    *,
    default: int | None,
    most: int = _PAGE_MAX,
    is_cursor: Callable[[str], bool] = is_name,
) -> NamePage:
    """Return the page that a request asks for. Raises `InvalidArgument` (INVALID_CURSOR)."""
    if cursor and not is_cursor(cursor):
        raise invalid_cursor()
    return NamePage(cursor, min(limit, most) if limit > 0 else default)
