"""Bounded concurrency: the same work on many objects, a few at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import islice
from typing import TypeVar

from services.common.concurrency.uncancellable import run_in_thread

Item = TypeVar("Item")

_MAX_CONCURRENCY = 4
_BATCH = 1000


async def batches(items: Iterator[Item]) -> AsyncIterator[list[Item]]:
    """Yield the items of a blocking iterator in batches."""
    while batch := await run_in_thread(lambda: list(islice(items, _BATCH))):
        yield batch


async def map_concurrently(items: Iterator[Item], work: Callable[[Item], Awaitable[None]]) -> None:
    """Run the work on every item of a blocking iterator; the first error cancels the rest and is raised."""
    free = asyncio.Semaphore(_MAX_CONCURRENCY)

    async def process_item(item: Item) -> None:
        try:
            await work(item)
        finally:
            free.release()

    try:
        async with asyncio.TaskGroup() as group:
            async for batch in batches(items):
                for item in batch:
                    await free.acquire()
                    group.create_task(process_item(item))
    except ExceptionGroup as failures:
        # One failure is enough: the task group has cancelled the others because of it.
        raise failures.exceptions[0] from failures
