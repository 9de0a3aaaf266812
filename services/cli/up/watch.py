"""Hang detection: a process hangs if it runs, but shows no sign of life for a while."""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress

PROBE_SECONDS = 2.0
"""The seconds between two probes of a process that sends no heartbeats, and the most that a probe may take."""

Question = Callable[[], Awaitable[bool]]
_MAX_BEATS = 65_536


async def until_it_hangs(answers: Question, *, interval: float, seconds: float) -> None:
    """Return once `answers`, called every `interval` seconds, has returned False for `seconds`.

    Before the first True, the process is starting and may be silent for long. The limit counts consecutive probes, not
    time: if this process itself could not probe, such as on a machine that slept or is overloaded, the other process
    had no chance to answer either.
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
    """Return a question about the reading end of a heartbeat pipe: whether heartbeats arrived since the last call."""
    os.set_blocking(descriptor, False)

    async def has_beaten() -> bool:
        with suppress(BlockingIOError):
            return bool(os.read(descriptor, _MAX_BEATS))
        return False

    return has_beaten
