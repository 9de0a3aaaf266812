"""Ends of tasks."""

import asyncio

import pytest

from services.common import lifecycle
from services.common.lifecycle import cancel_and_wait
from tests.support.loop import never, settled
from tests.support.waiting import STEP_SECONDS


async def test_a_lost_cancellation_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that swallows a cancellation, as drivers and `wait_for` can, ends all the same."""
    monkeypatch.setattr(lifecycle, "_CANCEL_SECONDS", 0.05)
    lost = 0

    async def work() -> None:
        nonlocal lost
        while True:
            try:
                await never()
            except asyncio.CancelledError:
                if lost:
                    raise
                lost += 1

    tasks = [asyncio.create_task(work()), asyncio.create_task(never())]
    await settled()
    async with asyncio.timeout(STEP_SECONDS):
        await cancel_and_wait(*tasks)
    assert lost == 1
    assert all(task.cancelled() for task in tasks)


async def test_what_a_task_raised_is_raised() -> None:
    """A failure in the background is not lost when the process stops."""

    async def fail() -> None:
        raise OSError("the disk is gone")

    failed = asyncio.create_task(fail())
    await settled()
    with pytest.raises(OSError, match="the disk is gone"):
        await cancel_and_wait(failed)


async def test_nothing_to_end() -> None:
    """No task is no error."""
    await cancel_and_wait()
