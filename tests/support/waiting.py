"""Waiting for what other processes do, where nothing tells when it is done, and how long that is waited for.

The limits decide about no test. They find a hang, and are longer than anything takes on a machine with eight times the
work that it can do.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

START_SECONDS = 300
"""Until what was started is of use."""

STEP_SECONDS = 120
"""Until there is anything else that is expected: an answer, an effect, an end."""

LONG_SECONDS = 600
"""Until something big is done: packages are installed, hundreds of objects pushed, a GiB is moved."""

_PAUSE = 0.02


async def until(
    condition: Callable[[], object | Awaitable[object]],
    what: str = "what is waited for",
    *,
    seconds: float = STEP_SECONDS,
) -> None:
    """Wait until a condition holds; fail, saying `what` was waited for, when it never does."""
    deadline = time.monotonic() + seconds
    while True:
        holds = condition()
        if await holds if isinstance(holds, Awaitable) else holds:
            return
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(_PAUSE)


async def until_answer(expected: object, ask: Callable[[], Awaitable[object]]) -> None:
    """Ask again and again, as `until` does, until the answer is the expected one; fail with the last answer."""
    deadline = time.monotonic() + STEP_SECONDS
    while (answer := await ask()) != expected:
        assert time.monotonic() < deadline, f"not within {STEP_SECONDS} s: {expected!r}, but {answer!r}"
        await asyncio.sleep(_PAUSE)


def blocking_until(condition: Callable[[], object], what: str, *, seconds: float = STEP_SECONDS) -> None:
    """Wait as `until` does, where no loop runs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(_PAUSE)
