"""Work that, once begun, a cancellation does not interrupt."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


async def run_to_completion(work: Coroutine[object, object, Result] | asyncio.Future[Result]) -> Result:
    """Run `work` to its end; a cancellation during the work is raised afterwards.

    A thread cannot be cancelled: its file must not be closed, and the lock it relies on must not be released, while it
    still runs.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
        raise


async def run_in_thread(
    function: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Run a blocking function in a thread, to its end."""
    return await run_to_completion(asyncio.get_running_loop().run_in_executor(None, partial(function, *args, **kwargs)))
