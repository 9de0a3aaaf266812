"""The shutdown of a process: its triggers (SIGTERM, SIGINT, or the death of the parent), and the end of its tasks."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

HEARTBEAT_SECONDS = 0.5
"""The seconds between two heartbeats; a heartbeat is a byte that shows that the event loop runs."""

STOPPED_STATUS = 130
"""The exit status of a program that was told to stop before its work was done, as after Ctrl-C in a shell."""

_CANCEL_SECONDS = 1.0

Result = TypeVar("Result")


def stop_event(lifeline_fd: int | None, heartbeat_fd: int | None = None) -> asyncio.Event:
    """Return an event that is set by SIGTERM, by SIGINT, or when the other end of the lifeline closes.

    The lifeline is the reading end of a pipe whose writing end the parent has open; the kernel closes the writing end
    however the parent dies. The heartbeat is the writing end of another pipe: the event loop writes a byte to it each
    half second, and a parent that reads none knows that the process hangs. Call this once, in the running event loop.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    if lifeline_fd is not None:
        os.set_blocking(lifeline_fd, False)

        def parent_is_gone() -> None:
            loop.remove_reader(lifeline_fd)
            stop.set()

        loop.add_reader(lifeline_fd, parent_is_gone)
    if heartbeat_fd is not None:
        os.set_blocking(heartbeat_fd, False)
        _beat(loop, heartbeat_fd)
    return stop


def _beat(loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
    try:
        os.write(descriptor, b".")
    except BlockingIOError:
        # The parent is slow to read; the heartbeats in the full pipe suffice.
        pass
    except OSError:
        return
    loop.call_later(HEARTBEAT_SECONDS, _beat, loop, descriptor)


async def run_after(event: asyncio.Event, work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` as soon as `event` is set."""
    await event.wait()
    await work()


async def run_until_stopped(work: Coroutine[Any, Any, Result], lifeline_fd: int | None) -> Result:
    """Return what `work` returns; where `stop_event` comes first, cancel it and exit with `STOPPED_STATUS`."""
    stop = asyncio.create_task(stop_event(lifeline_fd).wait())
    working = asyncio.create_task(work)
    await asyncio.wait({stop, working}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not working.done():
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        sys.exit(STOPPED_STATUS)
    return working.result()


@asynccontextmanager
async def running(work: Coroutine[Any, Any, Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """Run `work` as a task inside the context; then cancel the task, wait for its end, and raise its error if any."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        await cancel_and_wait(task)


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and return when all have ended; raise the first error that a task raised.

    A cancellation can get lost, such as in `asyncio.wait_for` of Python 3.11 or in a driver whose connection is being
    cut off. It is therefore repeated every second.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_CANCEL_SECONDS)
    for task in tasks:
        if not task.cancelled():
            task.result()
