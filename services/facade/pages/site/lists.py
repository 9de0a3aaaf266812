"""Lists of the site: pages of those that a call returns whole, and the links from page to page."""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from services.facade.pages.visit import Visit

PAGE = 100
"""The most entries that a page shows of a list."""

Entry = TypeVar("Entry")
_LATEST = 10**12


@dataclass(frozen=True)
class Part(Generic[Entry]):
    """The entries of a list that a page shows, of how many, and the cursor of the page after it; empty for none."""

    entries: list[Entry]
    total: int
    next_cursor: str


def part_of(
    entries: Iterable[Entry], key: Callable[[Entry], str], cursor: str = "", *, most: int = PAGE
) -> Part[Entry]:
    """Return the entries of a whole list, in the order of their keys, that follow the key which is the cursor."""
    ordered = sorted(entries, key=key)
    start = bisect_right(ordered, cursor, key=key) if cursor else 0
    shown = ordered[start : start + most]
    return Part(shown, len(ordered), key(shown[-1]) if start + most < len(ordered) else "")


def latest_first(stamp: Timestamp, number: int) -> str:
    """Return the key of an entry in a list that has the latest first."""
    return f"{_LATEST - stamp.seconds:013d}.{number:019d}"


def number_key(number: int) -> str:
    """Return the key of an entry in a list that is ordered by a number."""
    return f"{number:019d}"


class Links(NamedTuple):
    """The links to the first and to the next page of a list; empty where there is no such page."""

    first: str
    next: str


def page_links(visit: Visit, path: str, next_cursor: str, **query: str) -> Links:
    """Return the links of a page of a list, which lead to pages with the same query."""
    return Links(
        visit.link(path, **query) if "cursor" in visit.query else "",
        visit.link(path, **query, cursor=next_cursor) if next_cursor else "",
    )
