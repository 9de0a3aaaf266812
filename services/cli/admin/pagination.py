"""Output of AdminService's lists that come in pages."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from services.cli.connection import Administration, Target
from services.cli.output import Listing, Record

PAGE = 1000
"""The number of entries to request per page; the service may return fewer."""


class Page(Protocol):
    """A response that is one page of a list; the last page has no `next_cursor`."""

    next_cursor: str


PageT = TypeVar("PageT", bound=Page)


async def pages(
    admin: Administration,
    method: Callable[..., Awaitable[PageT]],
    request: Any,  # noqa: ANN401 - the requests have no common type with `limit` and `cursor`
) -> AsyncIterator[PageT]:
    """Yield every page of a list; sets the fields `limit` and `cursor` of `request`."""
    request.limit = PAGE
    while True:
        page = await admin.call(method, request)
        yield page
        if not page.next_cursor:
            return
        request.cursor = page.next_cursor


def show_pages(
    target: Target,
    method: Callable[[Administration], Callable[..., Awaitable[PageT]]],
    request: Any,  # noqa: ANN401 - the requests have no common type with `limit` and `cursor`
    records: Callable[[PageT], Iterable[Record]],
    columns: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Print the records of every page as soon as it arrives; sets the fields `limit` and `cursor` of `request`."""
    listing = Listing(columns, as_json=as_json)

    async def show(admin: Administration) -> None:
        async for page in pages(admin, method(admin), request):
            listing.add(list(records(page)))
        listing.end()

    target.run(show)
