"""Finds out that a process hangs: it runs, and shows no sign of life for a while."""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress

PROBE_SECONDS = 2.0
"""The seconds between two questions to a process that sends no heartbeats, and the most that an answer takes."""

Question = Callable[[], Awaitable[bool]]
_MAX_BEATS = 65_536


async def until_it_hangs(answers: Question, *, interval: float, seconds: float) -> None:
    """Return when `answers`, which is asked each `interval`, has said no for `seconds`.

    Before its first yes it is starting, and may be silent for long. What is counted is questions in a row, not time:
    where this process itself was kept from asking, as on a machine that slept or has too much to do, the other one had
    no chance to answer either.
    """
    limit = max(2, math.ceil(seconds / interval))
    has_answered, silent = False, 0
    while silent < limit:
        _, is_alive = await asyncio.gather(asyncio.sleep(interval), answers())
        if is_alive:
            has_answered, silent = True, 0
        elif has_answered:
            silent += 1


def heartbeats(descriptor: int) -> Question:
    """Return what tells whether there were heartbeats since it was asked last, at the reading end of their pipe."""
    os.set_blocking(descriptor, False)

    async def has_beaten() -> bool:
        with suppress(BlockingIOError):
            return bool(os.read(descriptor, _MAX_BEATS))
        return False

    return has_beaten
