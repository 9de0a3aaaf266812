"""Repeated tries, with pauses that grow, or as long as the other side asks for."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from services.cli.errors import CommandError
from services.transfer.errors import Interrupted

MAX_TRIES = 8
_FIRST_PAUSE = 0.5
_MAX_PAUSE = 30.0

Result = TypeVar("Result")


def pause(tries: int, asked: float | None) -> float:
    """Return the seconds before the next try, after `tries` of them; `asked` is the time that the other side names."""
    if asked is not None:
        # Not all at the same moment.
        return asked + random.random()  # noqa: S311 - no secret
    longest = min(_MAX_PAUSE, _FIRST_PAUSE * 2.0 ** (tries - 1))
    return random.uniform(longest / 2, longest)  # noqa: S311 - no secret


async def repeated(work: Callable[[], Awaitable[Result]]) -> Result:
    """Do the work, again and again while it is `Interrupted`, 8 times at most. Raises the last `Interrupted`."""
    tries = 0
    while True:
        tries += 1
        try:
            return await work()
        except Interrupted as error:
            if tries == MAX_TRIES:
                raise
            await asyncio.sleep(pause(tries, error.seconds))


async def required(work: Callable[[], Awaitable[Result]]) -> Result:
    """Do the work as `repeated` does. Raises `CommandError` where it never succeeds."""
    try:
        return await repeated(work)
    except Interrupted as error:
        raise CommandError(f"{error.message}; tried {MAX_TRIES} times") from error
