"""SharedTasks: one task for each key, that outlives its callers."""

import asyncio

import pytest

from services.common.concurrency.shared_tasks import SharedTasks
from tests.support.loop import never, settled


async def test_callers_of_one_key_share_a_task() -> None:
    """The work of a key runs once at a time, and again when it has ended."""
    tasks: SharedTasks[str] = SharedTasks()
    began, go_on = list[str](), asyncio.Event()

    async def work() -> None:
        began.append("a")
        await go_on.wait()

    first, second, other = tasks.start("a", work), tasks.start("a", work), tasks.start("b", work)
    assert first is second is not other
    await settled()
    assert len(began) == 2
    go_on.set()
    await asyncio.gather(first, other)
    await tasks.start("a", work)
    assert len(began) == 3


async def test_a_task_outlives_a_caller_that_is_cancelled() -> None:
    """A caller that waits with `asyncio.wait` may go."""
    tasks: SharedTasks[str] = SharedTasks()
    go_on = asyncio.Event()

    async def work() -> None:
        await go_on.wait()

    async def call() -> None:
        await asyncio.wait({tasks.start("a", work)})

    caller = asyncio.create_task(call())
    await settled()
    caller.cancel()
    await asyncio.wait({caller})
    task = tasks.start("a", work)
    go_on.set()
    await task


async def test_an_error_is_for_whoever_waits(caplog: pytest.LogCaptureFixture) -> None:
    """A failed task that nobody waits for is not logged by asyncio; the next start begins anew."""
    tasks: SharedTasks[str] = SharedTasks()

    async def fail() -> None:
        raise ValueError("no")

    task = tasks.start("a", fail)
    await asyncio.wait({task})
    await settled()
    with pytest.raises(ValueError, match="no"):
        task.result()
    tasks.start("a", fail)
    await settled()
    assert not caplog.records


async def test_close_ends_all() -> None:
    """Nothing runs any more when it returns."""
    tasks: SharedTasks[str] = SharedTasks()
    running = [tasks.start(key, never) for key in ("a", "b")]
    await settled()
    await tasks.close()
    assert all(task.cancelled() for task in running)
