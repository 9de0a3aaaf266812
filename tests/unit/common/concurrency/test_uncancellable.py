"""Work that a cancellation does not cut in two."""

import asyncio
import threading

import pytest

from services.common.concurrency.uncancellable import run_in_thread, run_to_completion
from tests.support.loop import settled
from tests.support.waiting import STEP_SECONDS


async def test_cancellation_waits_for_the_thread() -> None:
    """Cancelled twice, it ends only when its thread has."""
    release, ended = threading.Event(), threading.Event()

    def work() -> None:
        release.wait(STEP_SECONDS)
        ended.set()

    task = asyncio.create_task(run_in_thread(work))
    for _ in range(2):
        await settled()
        task.cancel()
    await settled()
    assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_failure_after_cancellation_is_not_lost_in_warnings() -> None:
    """Cancelled work that then fails ends as cancelled."""
    fail = asyncio.Event()

    async def work() -> None:
        await fail.wait()
        raise OSError("disk")

    task = asyncio.create_task(run_to_completion(work()))
    await settled()
    task.cancel()
    await settled()
    fail.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_results_and_errors_pass() -> None:
    """Uncancelled, it is as if it were not there."""
    assert await run_in_thread(int, "7") == 7
    with pytest.raises(ValueError, match="invalid literal"):
        await run_in_thread(int, "x")
