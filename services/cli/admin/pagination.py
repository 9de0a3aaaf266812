"""Lists that come in pages."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message

from services.cli.connection import Administration
from services.cli.output import Record

PAGE = 1000
"""How many entries are asked for at once; the service may give fewer."""


class Page(Protocol):
    """An answer that is a page."""

    @property
    def next_cursor(self) -> str:
        """Where the next page begins, or empty."""


PageT = TypeVar("PageT", bound=Page)


async def follow(
    admin: Administration,
    method: Callable[..., Awaitable[PageT]],
    request: Message,
    records: Callable[[PageT], Iterable[Record]],
) -> AsyncIterator[Sequence[Record]]:
    """Yield the records of every page, from the first to the last; `request` has a field `cursor`."""
    paged: Any = request
    while True:
        page = await admin.call(method, paged)
        yield list(records(page))
        if not page.next_cursor:
            return
        paged.cursor = page.next_cursor
