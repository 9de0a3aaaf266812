"""Pagination of AdminService's lists by cursor."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message

from services.cli.connection import Administration
from services.cli.output import Record

PAGE = 1000
"""The number of entries to request per page; the service may return fewer."""


class Page(Protocol):
    """A response that is one page of a list."""

    @property
    def next_cursor(self) -> str:
        """The cursor of the next page; empty on the last page."""


PageT = TypeVar("PageT", bound=Page)


async def follow(
    admin: Administration,
    method: Callable[..., Awaitable[PageT]],
    request: Message,
    records: Callable[[PageT], Iterable[Record]],
) -> AsyncIterator[Sequence[Record]]:
    """Yield the records of every page, from the first to the last; sets the field `cursor` of `request`."""
    paged: Any = request
    while True:
        page = await admin.call(method, paged)
        yield list(records(page))
        if not page.next_cursor:
            return
        paged.cursor = page.next_cursor
