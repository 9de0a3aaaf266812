"""The Postgres of our own."""

import asyncio
import time
from pathlib import Path

import pytest

from services.cli.embedded_postgres import EmbeddedPostgres
from tests.support.waiting import STEP_SECONDS


@pytest.mark.parametrize("steps", range(16))
async def test_waiting_for_a_server_ends_at_whatever_moment_it_is_cancelled(tmp_path: Path, steps: int) -> None:
    """A command that is told to stop while its Postgres starts stops at once, not when it gives up on Postgres.

    The moments are the steps that the event loop takes from the end of a program, which asks in vain, to the next try.
    """
    waiting = asyncio.create_task(EmbeddedPostgres(tmp_path / "data", tmp_path).wait_ready())
    await asyncio.sleep(0.005)
    time.sleep(0.1)  # noqa: ASYNC251 - so that all that tells of the program's end is there when the loop goes on
    for _ in range(steps):
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(STEP_SECONDS):
            await waiting
