"""Background loops."""

import asyncio

import pytest
from structlog.testing import capture_logs

from services.common.concurrency.periodic import run_periodically
from tests.support.waiting import LONG_SECONDS, STEP_SECONDS


class Done(BaseException):
    """Ends a loop that ends by no Exception."""


async def _run(outcomes: list[Exception | float | None], **options: float | bool) -> list[str]:
    """Run work with these outcomes, one after the other; return the events of the log."""
    remaining = iter(outcomes)

    async def work() -> float | None:
        outcome = next(remaining, Done())
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    with capture_logs() as lines, pytest.raises(Done):
        async with asyncio.timeout(STEP_SECONDS):
            await run_periodically(work, 0.0, trouble="work has failed", **options)  # type: ignore[arg-type] # as given
    return [f"{line['event']}: {line['error']}" for line in lines]


async def test_a_failure_ends_no_loop_and_is_logged_once() -> None:
    """An outage of minutes fills no log, and the next one is logged again."""
    first, second = OSError("first"), OSError("second")
    assert await _run([first, first, first, None, second, None]) == [
        "work has failed: OSError('first')",
        "work has failed: OSError('second')",
    ]


async def test_single_failures_can_be_tolerated() -> None:
    """At a start, the service that is asked may not be ready yet."""
    failure = OSError("not yet")
    assert await _run([failure, None, failure, None], tolerated_failures=1, retry_seconds=0.0) == []
    assert len(await _run([failure, failure, failure], tolerated_failures=1, retry_seconds=0.0)) == 1


async def test_work_can_ask_for_another_pause() -> None:
    """The pause of a retry, and one that the work returns, take the place of the interval."""
    ran = asyncio.Event()

    async def work() -> float:
        ran.set()
        return LONG_SECONDS

    loop = asyncio.create_task(run_periodically(work, 0.0, trouble="work has failed"))
    await asyncio.wait_for(ran.wait(), STEP_SECONDS)
    ran.clear()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ran.wait(), 0.1)
    loop.cancel()


async def test_a_pause_ends_early_when_there_is_work() -> None:
    """Work that is wanted at once must not wait for the end of an hour."""
    wanted, runs = asyncio.Event(), asyncio.Queue[int]()

    async def work() -> None:
        wanted.clear()
        runs.put_nowait(runs.qsize())

    loop = asyncio.create_task(run_periodically(work, LONG_SECONDS, trouble="work has failed", wake=wanted.wait))
    for _ in range(3):
        await asyncio.wait_for(runs.get(), STEP_SECONDS)
        wanted.set()
    loop.cancel()
