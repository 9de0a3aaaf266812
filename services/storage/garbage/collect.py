"""A collection of garbage: its summary, its list, and the removal, in small transactions."""

import asyncio
import datetime
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import DeadlineExceeded, Reason, ServiceError, Unavailable
from services.common.observability.logs import get_logger
from services.database.transactions import is_transient
from services.storage import metrics
from services.storage.context import StorageContext
from services.storage.errors import collection_running, too_much_garbage
from services.storage.garbage.retained import ListEnd, RetainedList
from services.storage.index import collections, contents, objects
from services.storage.index.advisory_locks import held_alone
from services.storage.index.collections import Collection, Tally
from services.storage.index.objects import Record

# Each object takes a lock in Postgres, which has room for some thousands of locks.
_BATCH = 200
_LISTED = 1_000
_LIST_SECONDS = 3600.0

_log = get_logger(__name__)


@dataclass(frozen=True)
class CollectionTerms:
    """The terms of a collection."""

    listed_ago: datetime.timedelta
    """The time since the listing of the retained objects began."""
    grace: datetime.timedelta
    """The time before that within which an object must have been used to be kept."""
    most_percent: int
    """The most garbage that is removed, as a percentage of what the repository holds."""
    apply: bool
    list: bool
    reason: str
    removed_by: str


class Summary(NamedTuple):
    """The counts of a collection before it removes anything."""

    tally: Tally
    retained_count: int
    """The number of oids in the list."""
    returning_count: int
    """The number of them that lie in the bin as garbage."""


class Progress(NamedTuple):
    """The number of objects that were removed, their bytes, and the number of those that came back from the bin."""

    removed_count: int = 0
    removed_bytes: int = 0
    returned_count: int = 0


class Result(NamedTuple):
    """The last progress of a collection."""

    progress: Progress


Step: TypeAlias = Summary | list[Record] | Progress | Result
Tell: TypeAlias = Callable[[Step], Awaitable[None]]


async def collect_garbage(
    context: StorageContext,
    repository_id: int,
    terms: CollectionTerms,
    parts: AsyncIterator[Sequence[str] | ListEnd],
    tell: Tell,
) -> None:
    """Receive the list of what is retained; tell the summary, and, as the terms say, the garbage and its removal.

    Raises what CollectGarbage documents. If the process is killed, the sweeper forgets the list a day later.
    """
    if context.collection_slots.locked():
        raise collection_running()
    # From the beginning, so that one repository cannot take all slots.
    async with context.collection_slots, _held_alone(context, repository_id) as is_alone:
        if not is_alone:
            raise collection_running()
        collection = await context.database.run(
            partial(collections.begin, repository_id=repository_id, listed_ago=terms.listed_ago, grace=terms.grace)
        )
        try:
            retained = RetainedList(context, collection)
            await _receive(retained, parts)
            await _collect(context, collection, terms, retained.count, tell)
        finally:
            await drop_collection(context, collection.id)


@asynccontextmanager
async def _held_alone(context: StorageContext, repository_id: int) -> AsyncIterator[bool]:
    """Yield True if no other call collects in the repository, until this block ends, or the connection is lost.

    Each removal is right whoever else collects. Raises `Unavailable`.
    """
    try:
        async with held_alone(context.lock_engine, f"collection {repository_id}") as is_alone:
            yield is_alone
    except Exception as error:
        if isinstance(error, ServiceError) or not is_transient(error):
            raise
        raise Unavailable(Reason.UNAVAILABLE, "the database does not answer") from error


async def _receive(retained: RetainedList, parts: AsyncIterator[Sequence[str] | ListEnd]) -> None:
    try:
        async with asyncio.timeout(_LIST_SECONDS):
            await retained.receive(parts)
    except TimeoutError as error:
        raise DeadlineExceeded(
            Reason.DEADLINE_EXCEEDED, f"retained: expected within {_LIST_SECONDS:g} s, got {retained.count} ids"
        ) from error


async def drop_collection(context: StorageContext, collection_id: int) -> None:
    """Forget a collection, which removes nothing any more from then on."""
    await context.database.run(partial(collections.end, collection_id=collection_id))
    while await context.database.run(partial(collections.drop_some, collection_id=collection_id)):
        pass


async def drop_left_collections(context: StorageContext) -> None:
    """Forget the collections that killed processes have left."""
    for collection_id in await context.database.run(collections.left):
        await drop_collection(context, collection_id)


async def _collect(
    context: StorageContext, collection: Collection, terms: CollectionTerms, retained_count: int, tell: Tell
) -> None:
    tally, returning = Tally(), 0
    async for page in _pages(context, collection):
        tally += await context.database.run(partial(collections.tally, collection=collection, **page._asdict()))
        returning += len(
            await context.database.run(partial(collections.returning, collection=collection, **page._asdict()))
        )
    await tell(Summary(tally, retained_count, returning))
    if terms.list:
        async for garbage in _garbage(context, collection, _LISTED):
            await tell(garbage)
    if terms.apply:
        _require_at_most(tally, terms.most_percent)
        await _apply(context, collection, terms, tell)


def _require_at_most(tally: Tally, most_percent: int) -> None:
    shares = [
        100 * garbage / held
        for garbage, held in ((tally.garbage_count, tally.held_count), (tally.garbage_bytes, tally.held_bytes))
        if held
    ]
    if (share := max(shares, default=0.0)) > most_percent:
        raise too_much_garbage(share, most_percent)


async def _apply(context: StorageContext, collection: Collection, terms: CollectionTerms, tell: Tell) -> None:
    progress = Progress()
    try:
        async for oids in _returning(context, collection):
            returned = await _take_back(context, collection, oids)
            progress = progress._replace(returned_count=progress.returned_count + returned)
            await tell(progress)
        async for garbage in _garbage(context, collection, _BATCH):
            sizes = await _remove(context, collection, terms, garbage)
            progress = progress._replace(
                removed_count=progress.removed_count + len(sizes),
                removed_bytes=progress.removed_bytes + sum(sizes.values()),
            )
            await tell(progress)
    finally:
        context.sweep_wanted.set()
        _log.info("collected garbage", repository_id=collection.repository_id, **progress._asdict())
    await tell(Result(progress))


async def _remove(
    context: StorageContext, collection: Collection, terms: CollectionTerms, garbage: list[Record]
) -> dict[str, int]:
    """Remove what still is garbage in one transaction, and return the sizes by oid."""
    oids = [record.oid for record in garbage]
    bin_for = datetime.timedelta(days=context.bin_days)
    removed: dict[str, int] = {}

    async def work(connection: AsyncConnection) -> None:
        await objects.lock(connection, oids)
        # An earlier attempt may have been committed although its answer was lost.
        removed.update(
            await collections.remove(
                connection, collection, oids, reason=terms.reason, removed_by=terms.removed_by, bin_for=bin_for
            )
        )
        if not bin_for:
            await contents.release_unreferenced(connection, oids)

    await context.database.run(work)
    metrics.count_collected(removed.values())
    return removed


async def _take_back(context: StorageContext, collection: Collection, oids: list[str]) -> int:
    """Hold retained objects again that lie in the bin as garbage, and return their number."""
    returned: set[str] = set()

    async def work(connection: AsyncConnection) -> None:
        await objects.lock(connection, oids)
        returned.update(await collections.take_back(connection, collection, oids))

    await context.database.run(work)
    return len(returned)


class _Page(NamedTuple):
    """The objects with oids after `after`, up to `last`."""

    after: str
    last: str


async def _pages(context: StorageContext, collection: Collection) -> AsyncIterator[_Page]:
    after = ""
    while True:
        last = await context.database.run(
            partial(collections.last_of_page, repository_id=collection.repository_id, after=after)
        )
        if last is None:
            return
        yield _Page(after, last)
        after = last


async def _garbage(context: StorageContext, collection: Collection, length: int) -> AsyncIterator[list[Record]]:
    """Yield all garbage, in lists of at most `length`."""
    async for page in _pages(context, collection):
        found = await context.database.run(partial(collections.garbage, collection=collection, **page._asdict()))
        for start in range(0, len(found), length):
            yield found[start : start + length]


async def _returning(context: StorageContext, collection: Collection) -> AsyncIterator[list[str]]:
    """Yield the oids of all retained objects that lie in the bin as garbage, in lists of at most `_BATCH`."""
    async for page in _pages(context, collection):
        found = await context.database.run(partial(collections.returning, collection=collection, **page._asdict()))
        for start in range(0, len(found), _BATCH):
            yield found[start : start + _BATCH]
